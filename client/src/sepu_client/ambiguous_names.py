"""Has the names that CSS and the library give to different colours, with the library's value.

Made from the release by `make release`; do not edit it.
"""

AMBIGUOUS_NAMES = {
    "azure": "#70F3FF",
    "blue": "#44CEF6",
    "crimson": "#C3272B",
    "gold": "#EACD76",
    "green": "#00E500",
    "indigo": "#177CB0",
    "ivory": "#EEDEB0",
    "orange": "#FA8C35",
    "purple": "#8D4BBB",
    "tan": "#B36D61",
}
