"""Limits of the delivery of events: how long an attempt may take, and when the next one is made."""

# For an endpoint to answer a webhook: from the connection to the head of the answer.
ANSWER_SECONDS = 15.0
# While a deliverer sends an event, no other one does. Longer than a webhook takes, and short, because a deliverer that
# dies keeps its event this long.
CLAIM_SECONDS = 60
# Webhooks that are sent at the same time.
CONCURRENT = 16
# Between two looks for events that are due, and between two attempts to connect.
LOOK_SECONDS = 1.0

# The first pause after a failure. Each next one is four times as long, plus or minus a fifth at random.
FIRST_RETRY_SECONDS = 5
# Longest such pause.
MAX_RETRY_SECONDS = 12 * 3600
# After these an event is given up, about 56 hours after the first.
ATTEMPTS = 12
