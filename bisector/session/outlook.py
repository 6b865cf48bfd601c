"""What the search believes of a session, asked once for each event. Pure but for its memory."""

from bisector.recipe.schema import Recipe
from bisector.search import Assessment, Graph, assess
from bisector.search.types import Options
from bisector.session.evidence import evidence_of, measured_looks, options_of
from bisector.session.state import SessionState


class Outlook:
    """Assessments of one session: who asks often gets the last one until something happens."""

    def __init__(self, state: SessionState, recipe: Recipe) -> None:
        self._graph = Graph.from_parents(state.range.parents, good=0, bad=len(state.range) - 1)
        self._recipe = recipe
        self._last: tuple[int, Assessment | None] = (0, None)

    def assessment(self, state: SessionState) -> Assessment | None:
        """The search's assessment of this state, None before anything was measured."""
        if state.last_seq != self._last[0]:
            self._last = (state.last_seq, self._assess(state))
        return self._last[1]

    def _assess(self, state: SessionState) -> Assessment | None:
        if not measured_looks(state):
            return None
        return assess(self._graph, evidence_of(state, self._recipe.benchmark.test), self._options(state))

    def _options(self, state: SessionState) -> Options:
        samples = [sample for look in measured_looks(state) for sample in look.runs[0].samples]
        directions = {sample.test: sample.higher_is_better for sample in samples}
        return options_of(self._recipe, higher_is_better=directions[self._recipe.benchmark.test])
