"""GraphSAGE on batches of training nodes and sampled neighbours, scored on the whole graph.

python examples/sage_batches.py --epochs 20
"""

import argparse

from meanmax import NodeClassifier
from meanmax.data import load, make_split
from meanmax.scale import Batches, Source, fit_batches

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=20)
given = parser.parse_args()

digits = load("digits")
split = make_split(digits, "random", 0)
batches = Batches("neighbours", fanout=(5, 5), batch_size=128)


def show(epoch, history):
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1}: validation loss {history.val_loss[-1]:.3f}")


model = NodeClassifier("sage", aggr="softmax", hidden=64, epochs=given.epochs, lr=0.01, seed=0)
fit_batches(model, Source.of_dataset(digits, split), batches, on_epoch=show)
print(f"test accuracy {100 * model.score(digits, mask=split.test):.1f} %")
print("learned:", model.model_.learned())
