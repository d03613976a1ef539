"""Limits of the delivery of events: how long an attempt may take, and when the next one is made."""

# For an endpoint to answer a webhook: from the connection to the head of the answer.
ANSWER_SECONDS = 15.0
# Nobody else sends an event that one is sending. Long enough for a webhook, and short, because whoever dies while it
# sends keeps the event for so long.
CLAIM_SECONDS = 60
# Webhooks that are sent at once.
CONCURRENT = 16
# Between two looks for events that are due, and between two attempts to connect.
LOOK_SECONDS = 1.0
# For a statement of the deliverer; then it looks for another host.
STATEMENT_SECONDS = 1.5
# Between two counts of what is not delivered.
COUNT_SECONDS = 60

# After an attempt that failed, four times as long as after the one before, with a fifth more or less at random,
FIRST_RETRY_SECONDS = 5
# up to twelve hours.
MAX_RETRY_SECONDS = 12 * 3600
# What an endpoint may ask for by Retry-After.
MAX_RETRY_AFTER_SECONDS = 24 * 3600
# Then an event is given up: 56 hours after the first attempt.
ATTEMPTS = 12
