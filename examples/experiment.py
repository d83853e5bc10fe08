"""An experiment in a few lines, as in a notebook: run it, read the rounds, take out the model of a client."""

from fielding import run

config = {"rounds": 40, "trace": {"clients": 40, "samples": 50, "gap": 10, "window": 10}}
fielding = run({**config, "method": {"name": "fielding"}})
everybody = run({**config, "method": {"name": "global"}})

rounds, accuracy = fielding.column("accuracy")
for at, ours, theirs in zip(rounds, accuracy, everybody.column("accuracy")[1], strict=True):
    print(f"round {at:3d}  fielding {ours:.3f}  one model {theirs:.3f}")

tensors = fielding.model_of(7)
print("client 7 is in cluster", fielding.cluster_of(7), "with", {name: t.shape for name, t in tensors.items()})
