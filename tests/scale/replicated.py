"""What replicas do in their own processes."""

from meanmax import NodeClassifier
from meanmax.data import load, make_split
from meanmax.scale import Batches, Source, fit_batches
from meanmax.scale.sampling import Draws
from meanmax.train import Checkpoint

DATA = "sbm:nodes=240,edges=1200,seed=1"


class Stop(Exception):
    pass


def source():
    dataset = load(DATA)
    return Source.of_dataset(dataset, make_split(dataset))


def classifier(epochs, dropout, aggr="lp"):
    return NodeClassifier("gcn", aggr, hidden=8, epochs=epochs, patience=epochs, dropout=dropout)


def trained(job, batches, epochs, dropout, aggr="lp"):
    """The weights and the losses of a training."""
    model = fit_batches(classifier(epochs, dropout, aggr), source(), Batches(**batches), job=job)
    return model.model_.state_dict(), model.history_.train_loss, model.history_.val_loss


def resumed(job, batches, path):
    """The same, stopped after the third epoch and taken up again."""

    def stop(epoch, _):
        if epoch == 2:
            raise Stop

    def run(on_epoch):
        checkpoint = Checkpoint(path, run="r", every=0.0)
        return fit_batches(
            classifier(6, 0.5),
            source(),
            Batches(**batches),
            job=job,
            on_epoch=on_epoch,
            checkpoint=checkpoint,
        )

    try:
        run(stop)
    except Stop:
        pass
    model = run(None)
    return model.model_.state_dict(), model.history_.train_loss, model.history_.val_loss


def shares(job, count):
    """Which of so many batches a replica takes, and what its epoch is drawn with."""
    draws = Draws(job)
    return draws.share(list(range(count))), draws.generator().initial_seed()
