"""A sender for `mailroom collect --sender` that gives mails to Kafka.

Its argument is a file with the settings of librdkafka, as JSON. The topic has the items of lines,
links and all: encrypt the way to it, and let nobody read it but your senders.
"""

import json
import sys

from confluent_kafka import Producer

TOPIC = "mailroom"


def main():
    with open(sys.argv[1]) as file:
        settings = json.load(file)
    # All replicas have a mail before it counts; none is stored twice by a repetition below.
    settings |= {"acks": "all", "enable.idempotence": True, "message.timeout.ms": 20_000}
    producer = Producer(settings)
    for line in sys.stdin:
        batch = json.loads(line)
        answer = {"batch": batch["batch"], "ok": []}
        for item in batch["items"]:

            def keep(error, _, answer=answer, token=item["id"]):
                if error is None:
                    answer["ok"].append(token)
                else:
                    answer["unavailable"] = {"reason": error.str()}

            # The same key at every attempt: by it your senders know what they have sent.
            producer.produce(TOPIC, json.dumps(item), item["key"], callback=keep)
        producer.flush()
        print(json.dumps(answer), flush=True)


main()
