"""The runs of an experiment: a comparison of its variants, in the folder of its name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from experiments.reproduce.reading import Experiment, Table
from experiments.reproduce.street import street_file
from experiments.sweeping import forget_changed, telling
from fielding.comparing.compare import run_comparison
from fielding.comparing.plan import PlannedComparison, plan_comparison
from fielding.comparing.sweep import Following, sweep
from fielding.comparing.variants import with_settings
from fielding.errors import InputError
from fielding.records.plan import Plan, write_plan
from fielding.traces.catalog import data_folder

BUILDERS: dict[str, Callable[[Path, Path], Path]] = {"street": street_file}
"""What makes traces that are no known data set: from the data folder, into a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How experiments are run.

    Parameters
    ----------
    out
        Folder for all of them.
    is_quick
        Whether the quick form is run, which shows that it works and nothing else.
    n_jobs
        Runs at a time; 1 runs in this process.
    """

    out: Path
    is_quick: bool = False
    n_jobs: int = 1

    def folder_of(self, experiment: Experiment) -> Path:
        """Return where the runs of an experiment are."""
        return self.out / f"{experiment.runs_of or experiment.name}{'-quick' if self.is_quick else ''}"

    def parse_seeds(self, experiment: Experiment) -> list[int]:
        """Return the seeds of an experiment."""
        return [1] if self.is_quick else list(range(1, experiment.seeds + 1))


def base_config(experiment: Experiment, way: Way) -> Table:
    """Return what all runs of an experiment share; traces that must be made are made.

    Raises
    ------
    InputError
        If the data folder lacks a file.
    """
    standin = experiment.standin
    if standin is None:
        raise InputError(f"{experiment.name} has no stand-in, so there is nothing to run")
    if way.is_quick:
        return with_settings(standin.quick, experiment.quick)
    check_data(experiment)
    config = with_settings(standin.config, experiment.config)
    if standin.builder is None:
        return config
    made = BUILDERS[standin.builder](data_folder(None), way.out.resolve() / "traces")
    return with_settings(config, {"trace.file": str(made)})


def check_data(experiment: Experiment) -> None:
    """Raise if a file of the data folder that an experiment needs is not there."""
    folder, needs = data_folder(None), experiment.standin.needs if experiment.standin else ()
    missing = ", ".join(name for name in needs if not (folder / name).exists())
    if missing:
        raise InputError(f"{folder} has no {missing}; name the data folder with FIELDING_DATA, or use --quick")


def comparison_of(experiment: Experiment, way: Way) -> PlannedComparison:
    """Return the runs of an experiment, checked, and nothing run.

    Who only shows the runs of another experiment leaves the reference that is stored with them.
    """
    return plan_comparison(
        base_config(experiment, way),
        experiment.variants,
        seeds=way.parse_seeds(experiment),
        out=way.folder_of(experiment),
        reference=experiment.reference if experiment.runs_of is None else None,
    )


def run_all(experiment: Experiment, way: Way) -> Plan:
    """Do all runs of an experiment, or what is left of them, with a line about each.

    Raises
    ------
    InputError
        If a run failed; all others are done then.
    """
    forget_changed(way.folder_of(experiment), experiment.variants)
    comparison = comparison_of(experiment, way)
    note = telling(len(comparison.configs), f"{experiment.name} ")
    if way.n_jobs == 1:
        comparison.folder.mkdir(parents=True, exist_ok=True)
        write_plan(comparison.folder, comparison.plan)
        finished = sweep(comparison.configs, comparison.folder, on_done=note)
        failures = {name: one.error for name, one in finished.items() if one.error is not None}
    else:
        compared = run_comparison(comparison, n_jobs=way.n_jobs, following=Following(on_done=note))
        failures = dict(compared.failures)
    if failures:
        name, error = next(iter(failures.items()))
        raise InputError(f"{experiment.name}: {len(failures)} runs failed, {name} among them: {error}")
    return comparison.plan
