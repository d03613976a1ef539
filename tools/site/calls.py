"""Each call in each language, for the tabs of the reference. A test runs those of each language in turn."""

import textwrap

# For each language: its name on a tab, the markup of its code, and the code before its calls.
LANGUAGES = {
    "curl": ("console", ""),
    "Python": (
        "python",
        """\
import os
from sepu_client import Client

client = Client(os.environ["SEPU_URL"], os.environ["SEPU_API_KEY"])""",
    ),
    "Node": ("js", "const sepu = new Sepu(process.env.SEPU_URL, process.env.SEPU_API_KEY);"),
    "Go": ("go", 'sepu := NewClient(os.Getenv("SEPU_URL"), os.Getenv("SEPU_API_KEY"))'),
    "Java": (
        "java",
        """\
Sepu sepu = new Sepu(System.getenv("SEPU_URL"), System.getenv("SEPU_API_KEY"),
        Duration.ofSeconds(10), Duration.ofSeconds(60));""",
    ),
    "PHP": ("php", "$sepu = new Sepu(getenv('SEPU_URL'), getenv('SEPU_API_KEY'));"),
    "Shell": ("sh", ""),
}

# The clients to copy, except the shell's, have no call for the library.
CALLS: dict[str, dict[str, str]] = {
    "matchColors": {
        "curl": """\
$ curl $SEPU_URL/v1/match -H "Authorization: Bearer $SEPU_API_KEY" \\
    -H 'Idempotency-Key: order-8812-colours' -H 'Content-Type: application/json' \\
    -d '{"colors":[{"r":200,"g":60,"b":36.5}],"top":2}'""",
        "Python": """\
answer = client.match([(200, 60, 36.5)], top=2)
print(answer.results[0].matches[0].name.en)""",
        "Node": """\
const answer = await sepu.match([[200, 60, 36.5]], { top: 2 });
console.log(answer.results[0].matches[0].name.en);""",
        "Go": """\
answer, err := sepu.Match(ctx, NewKey(), 2, RGB{R: 200, G: 60, B: 36.5})
if err != nil {
	return err
}
fmt.Println(string(answer.Body))""",
        "Java": """\
Sepu.Answer answer = sepu.match(Sepu.newKey(), 2, new double[] {200, 60, 36.5});
System.out.println(answer.body());""",
        "PHP": """\
$answer = $sepu->match([[200, 60, 36.5]], top: 2);
echo $answer['body']['results'][0]['matches'][0]['name']['en'], "\\n";""",
        "Shell": "sepu_match 200 60 36.5  # one colour, and its nearest",
    },
    "searchColors": {
        "curl": """\
$ curl -G $SEPU_URL/v1/search -H "Authorization: Bearer $SEPU_API_KEY" \\
    -H 'Idempotency-Key: lookup-1-tao-hong' -d limit=2 --data-urlencode 'q=tao hong'""",
        "Python": """\
answer = client.search("tao hong", limit=2)
print(answer.results[0].name.en)""",
        "Node": """\
const answer = await sepu.search("tao hong", { limit: 2 });
console.log(answer.results[0].name.en);""",
        "Go": """\
answer, err := sepu.Search(ctx, NewKey(), "tao hong", 2)
if err != nil {
	return err
}
fmt.Println(string(answer.Body))""",
        "Java": """\
Sepu.Answer answer = sepu.search(Sepu.newKey(), "tao hong", 2);
System.out.println(answer.body());""",
        "PHP": """\
$answer = $sepu->search('tao hong', limit: 2);
echo $answer['body']['results'][0]['name']['en'], "\\n";""",
        "Shell": "sepu_search 'tao hong'",
    },
    "getUsage": {
        "curl": '$ curl $SEPU_URL/v1/usage -H "Authorization: Bearer $SEPU_API_KEY"',
        "Python": """\
for meter in client.usage().usage:
    print(meter.meter, meter.remaining)""",
        "Node": """\
for (const { meter, remaining } of (await sepu.usage()).usage) console.log(meter, remaining);""",
        "Go": """\
answer, err := sepu.Usage(ctx)
if err != nil {
	return err
}
fmt.Println(string(answer.Body))""",
        "Java": "System.out.println(sepu.usage().body());",
        "PHP": """\
foreach ($sepu->usage()['body']['usage'] as ['meter' => $meter, 'remaining' => $remaining]) {
    echo "$meter $remaining\\n";
}""",
        "Shell": "sepu_call /v1/usage",
    },
    "getLibrary": {
        "curl": '$ curl $SEPU_URL/v1/library -H "Authorization: Bearer $SEPU_API_KEY"',
        "Python": "print(client.library().version)",
        "Shell": "sepu_call /v1/library",
    },
}


def tab(title: str, text: str) -> str:
    """Returns a tab in Markdown; adjacent ones are shown as one set."""
    return f'=== "{title}"\n\n{textwrap.indent(text, "    ")}\n\n'


def tabs(operation: str) -> str:
    """Returns the tabs of an operation."""
    return "".join(_example(language, code) for language, code in CALLS[operation].items())


def _example(language: str, code: str) -> str:
    kind, before = LANGUAGES[language]
    return tab(language, f"```{kind}\n{before}{before and chr(10)}{code}\n```")
