"""The tool that changes the source to see whether tests notice."""

import ast
import random

from tests.faults import mutants

CODE = '''
def half(values: list[int] = [], *, most: int = 3) -> int:
    """Return a half."""
    if len(values) < most and values:
        raise ValueError(f"{1 + 1} too few")
    return sum(values, start=0) // 2
'''


def told(code: str) -> list[str]:
    return [change.what for change in mutants.changes(ast.parse(code))]


def test_every_kind_of_code_is_changed_but_annotations_and_texts() -> None:
    assert told(CODE) == [
        "3 -> 4",
        "if len(values) < most and values: raise ValueError(f'{1 + 1} too few') -> "
        "if not (len(values) < most and values): raise ValueError(f'{1 + 1} too few')",
        "len(values) < most and values -> len(values) < most or values",
        "len(values) < most -> len(values) <= most",
        "raise ValueError(f'{1 + 1} too few') -> pass",
        "return sum(values, start=0) // 2 -> return None",
        "sum(values, start=0) // 2 -> sum(values, start=0) * 2",
        "sum(values, start=0) -> sum(values)",
        "0 -> 1",
        "2 -> 3",
    ]


def test_mutants_of_the_core_differ_from_it_in_one_place_and_have_tests_nearby() -> None:
    names = mutants.mutant_names()

    assert len(names) > 5000
    for module, number in random.Random(1).sample(names, 5):
        source = (mutants.SOURCE / module).read_text()
        _, text = mutants.mutated(module, number)
        lines, changed = ast.unparse(ast.parse(source)).splitlines(), text.splitlines()
        same = sum(1 for line in lines if line not in changed)
        assert text != ast.unparse(ast.parse(source))
        assert same < 20
        assert all(path.exists() for stage in (0, 1) for path in mutants.tests_of(module, stage))
