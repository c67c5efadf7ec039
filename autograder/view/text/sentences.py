"""The sentences of a frame: the event, and its effect on backward."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from autograder.locale.translations import join_names, join_sentences, localized, translatable, translated
from autograder.tape.recording.schema import BackwardStep, Recording, SavedEdge, Step, Write, unrecorded_writes
from autograder.tape.recording.verdict_types import Outcome
from autograder.view.playback import Frame, Playback, lines_named_by_check
from autograder.view.shapes import clip
from autograder.view.text.gradient_values import gradient_name, is_wrong, short_values
from autograder.view.text.headline import about_refused, headline, is_refused, short_message
from autograder.view.text.naming import MAX_NAMES, NAMELESS, TensorNames, count_noun, join_few

Kind = Literal["counted", "unchanged", "uncounted", "miscounted"]
"""Whether a version counter counted a write: yes; yes, although the values are equal; no; only a counter that autograd ignores."""

SINGLE_WRITE: dict[Kind, str] = {
    "counted": "",
    "unchanged": translatable("No value changes, but the counter counts writes, not changes."),
    "uncounted": translatable("The bytes change, but no version counter increases: autograd cannot detect this write."),
    "miscounted": translatable(
        "That is a different counter from the one that autograd checks: it cannot detect this write."
    ),
}

SEVERAL_WRITES: dict[Kind, str] = {
    "counted": translatable("Their version counters move."),
    "unchanged": translatable("No value changes, but their version counters increase: they count writes, not changes."),
    "uncounted": translatable(
        "The bytes change, but no version counter increases: autograd cannot detect these writes."
    ),
    "miscounted": translatable(
        "Those are different counters from the ones that autograd checks: it cannot detect these writes."
    ),
}


class WriteSentences:
    """The sentences about the writes of a statement."""

    def __init__(self, names: TensorNames):
        self.names = names
        self.playback = names.playback

    def describe(self, step: Step) -> list[str]:
        """Return one sentence for each kind of write, because an optimizer's step writes into hundreds of tensors."""
        groups: dict[Kind, list[Write]] = {}
        filled: set[int] = set()
        for write in step.writes:
            if self._is_initialisation(write, step):
                filled.add(write.tensor or 0)
            else:
                groups.setdefault(self._kind(write), []).append(write)
        # an optimizer's step may leave some parameters unchanged; they need not have a separate sentence
        if "counted" in groups:
            groups["counted"] += groups.pop("unchanged", [])
        sentences = (sentence for kind, writes in groups.items() for sentence in self._group(kind, writes))
        return [*self._describe_initialised(filled), *sentences]

    def _is_initialisation(self, write: Write, step: Step) -> bool:
        """Return whether a write only initializes a new parameter or buffer of a module."""
        if write.tensor not in step.tensors or write.harmed or not write.counters:
            return False
        name = self.names.name(write.tensor)
        made = self.playback.tensors[write.tensor].kind
        return made == "parameter" or (made == "input" and (name == translated(NAMELESS) or "." in name))

    def _describe_initialised(self, tensors: set[int]) -> list[str]:
        """Return the sentence about the new parameters and buffers of modules."""
        if not tensors:
            return []
        sentence = count_noun(
            len(tensors), "{count} new tensor is initialized.", "{count} new tensors are initialized."
        )
        if all(self.playback.tensors[t].kind == "parameter" for t in tensors):
            sentence = count_noun(
                len(tensors), "{count} new parameter is initialized.", "{count} new parameters are initialized."
            )
        return [sentence]

    def _kind(self, write: Write) -> Kind:
        """Return whether and how counters counted a write."""
        if not write.counters:
            return "uncounted"
        if any(self.playback.condition(self.playback.saved[edge]) == "silent" for edge in write.harmed):
            return "miscounted"
        return "counted" if write.bytes_changed else "unchanged"

    def _group(self, kind: Kind, writes: list[Write]) -> list[str]:
        targets = dict.fromkeys(self._target(write) for write in writes)
        if len(targets) > 1 and len({write.storage for write in writes}) > 1:
            written = translated("It writes into {names}.", names=join_few(list(targets)))
            return [written, translated(SEVERAL_WRITES[kind])]
        sentences = dict.fromkeys(sentence for write in writes for sentence in self._one(write))
        return [*sentences, *([translated(SINGLE_WRITE[kind])] if SINGLE_WRITE[kind] else [])]

    def _target(self, write: Write) -> str:
        return write.through or self.names.name(write.tensor)

    def _one(self, write: Write) -> list[str]:
        """Return the sentences about one write: its target, the names that share that memory, the new versions."""
        target = self._target(write)
        same = [name for name in self.names.in_storage(write.storage) if self.playback.names[name] != write.tensor]
        owners = [name for name in same if name != target]
        sentence = translated("It writes into {names}.", names=target)
        if owners:
            same_as = join_few(owners)
            sentence = translated("It writes into {name}, the same memory as {owners}.", name=target, owners=same_as)
        counted = [self._version(counter, write) for counter in write.counters]
        return [sentence, *([translated("{sentence}.", sentence=join_names(counted))] if counted else [])]

    def _version(self, counter: int, write: Write) -> str:
        """Return the sentence about one counter that a write incremented."""
        tensors_of_counter = sorted(self.playback.tensors_of_counter.get(counter, ()))
        named = [self.names.name(tensor) for tensor in tensors_of_counter if self.names.has_name(tensor)]
        who = (named or [write.through or translated("That tensor")])[0]
        version = self.playback.versions.get(counter)
        if version is None:
            return translated("{name} is now at another version", name=who)
        return translated("{name} is now at version {version}", name=who, version=version)


FORECAST: dict[Outcome, str] = {
    "raises-forward": translatable("raises"), "raises-backward": translatable("raises"), "correct": translatable("right"),
    "silently-wrong": translatable("silently wrong"),
}  # fmt: skip
"""The words for the result of calling backward now; `forecast_word` translates them."""


def forecast_word(outcome: Outcome) -> str:
    """Return the badge's word for a forecast, in the reader's language."""
    return translated(FORECAST[outcome])


NUMBERS = 4  # the maximum number of numbers in the first two lines of a caption
NUMBER = re.compile(r"(?<![\w.])(?<!\w\[)-?\d[\d.e+-]*")  # a number that is not a part of a name


@dataclass(frozen=True)
class Caption:
    """The words on a frame below its picture; `fact` and the line after it have at most NUMBERS numbers."""

    fact: str  # the event
    meaning: str  # its meaning for backward; "" if there is an effect
    # the effects of a harmful modification, the first one and the others, which are hidden while the reader predicts;
    # "" in other frames
    effect: str
    others: str
    details: str  # the other sentences on the event


def _count_numbers(*sentences: str) -> int:
    """Return the number of numbers in the sentences."""
    return sum(len(NUMBER.findall(sentence)) for sentence in sentences)


class Sentences:
    """The sentences about the last played frame."""

    def __init__(self, playback: Playback):
        self.playback = playback
        self.names = TensorNames(playback)
        self._writes = WriteSentences(self.names)
        self._refused = {visit.step for visit in self.playback.recording.backward if visit.status == "raised"}

    def _error(self, most: int) -> str:
        """Return PyTorch's message, cut to `most` characters at the end of a sentence."""
        error = self.playback.recording.verdict.error
        message = short_message(error.message) if error else ""
        whole = message[:most].rpartition(". ")[0] if len(message) > most else ""
        return f"{whole}." if whole else clip(message, most)

    def describe(self, frame: Frame) -> str:
        """Return the description of the frame."""
        return join_sentences(self._facts(frame))

    def caption(self, frame: Frame) -> Caption:
        """Return the caption of the frame: the first sentences that have few numbers, and the others as details."""
        first, *facts = self._facts(frame)
        effect, *effects = self.effects(frame) or [""]
        if not effect and _count_numbers(first) > NUMBERS:
            return Caption(self._short(frame), "", "", "", join_sentences([first, *facts]))
        event, meaning, left = [first], "", NUMBERS - _count_numbers(effect, first)
        if not effect and len(facts) > (frame.step is not None):
            meaning = next((fact for fact in reversed(facts) if _count_numbers(fact) <= left), "")
            left -= _count_numbers(meaning)
        if frame.step:
            event += [fact for fact in facts[:2] if fact != meaning and _count_numbers(fact) <= left][:1]
            names = [change.name for change in frame.step.names if change.tensor is not None]
            is_described = meaning in self.names.describe_changes(frame.step)
            if len(event) == 1 and 0 < len(names) <= MAX_NAMES and not is_described:
                event.append(translated("It assigns {names}.", names=join_few(names)))
        details = [fact for fact in facts if fact != meaning and fact not in event]
        return Caption(*map(join_sentences, (event, [meaning], [effect], effects, details)))

    def _short(self, frame: Frame) -> str:
        """Return the first line of a caption whose first sentence has too many numbers."""
        error = self.playback.recording.verdict.error
        if frame.place is None or error is None:
            return translated("The run ends.")
        return translated("Line {line} stops with {error}.", line=frame.place.line, error=error.type)

    def _facts(self, frame: Frame) -> list[str]:
        """Return the sentences on the event of the frame, at least one."""
        if frame.visit:
            return self._visit(frame.visit)
        step = frame.step
        if step is None:
            return self._verdict()
        parts = [*self._writes.describe(step), *self.names.describe_changes(step)]
        parts += filter(None, [self._nodes(step), self._rebased(step), self._freed(step)])
        if self._stops(step):
            return [translated("Line {line} stops: {error}", line=step.place.line, error=self._error(240)), *parts]
        if not parts:
            return [translated("Line {line} runs. No tensor changes.", line=step.place.line)]
        return [translated("Line {line} runs.", line=step.place.line), *parts]

    def effects(self, frame: Frame) -> list[str]:
        """Return the effects of a frame's harmful modifications, the first MAX_NAMES and the number of others."""
        if frame.step is None:
            return []
        harmed = dict.fromkeys(edge for write in frame.step.writes for edge in write.harmed)
        parts = [part for part in [self._named(frame.step)] if part]
        parts += dict.fromkeys(self._harm(self.playback.saved[edge]) for edge in harmed)
        hidden = len(parts) - MAX_NAMES
        more = [translated("The same holds for {count} more.", count=hidden)] if hidden > 0 else []
        return parts[:MAX_NAMES] + more

    def _stops(self, step: Step) -> bool:
        """Return whether the program ended in an error at this statement, unless the statement ran backward."""
        error = self.playback.recording.verdict.error
        if error is None or step is not self.playback.recording.steps[-1]:
            return False
        return error.is_at(step.place) and not step.freed

    def stops_in_forward(self, step: Step) -> bool:
        """Return whether the program ended at this statement before any backward, so that no forecast is possible."""
        return self.playback.recording.verdict.outcome == "raises-forward" and self._stops(step)

    def _nodes(self, step: Step) -> str:
        """Return the sentence about new nodes and their saved tensors."""
        nodes = [node for node in step.nodes if not self.playback.nodes[node].name.endswith("AccumulateGrad")]
        kept = {node: self._kept(node, step) for node in nodes}
        called = {node: self.playback.nodes[node].name for node in nodes}
        if len(nodes) == 1:
            things = kept[nodes[0]]
            if not things:
                return translated("{node} joins the graph and keeps no tensor.", node=called[nodes[0]])
            text = translatable("{node} joins the graph and keeps {things} for backward.")
            return translated(text, node=called[nodes[0]], things=things)
        if not nodes:
            return ""
        if not any(kept.values()) and len(nodes) <= MAX_NAMES:
            return translated("{nodes} join the graph and keep no tensor.", nodes=join_names(list(called.values())))
        parts = self._keeping([(called[node], things) for node, things in kept.items()])
        return translated(
            "{count} nodes join the graph: {parts}.", count=len(nodes), parts=translated("; ").join(parts)
        )

    def _keeping(self, kept: list[tuple[str, str]]) -> list[str]:
        """Return the tensors that several new nodes keep: the first nodes by name, and the number of others."""
        keeping = [translated("{node} keeps {things}", node=name, things=things) for name, things in kept if things]
        parts = keeping[:MAX_NAMES]
        if len(keeping) > MAX_NAMES:
            parts.append(translated("{count} more keep tensors too", count=len(keeping) - MAX_NAMES))
        if without := len(kept) - len(keeping):
            parts.append(count_noun(without, "{count} keeps no tensor", "{count} keep no tensor"))
        return parts

    def _rebased(self, step: Step) -> str:
        """Return the sentence about tensors whose history an in-place write rebased, which changed their `grad_fn`."""
        moved = [(s.tensor, s.node) for s in step.states if s.node is not None and s.tensor not in step.tensors]
        parts = [
            translated("{name} now comes from {node}", name=self.names.name(tensor), node=self.playback.nodes[node].name)
            for tensor, node in moved if node in step.nodes
        ]  # fmt: skip
        return translated("{sentence}.", sentence=join_names(parts)) if parts else ""

    def _kept(self, node: int, step: Step) -> str:
        """Return a new node's saved tensors: "d at version 0 and w2 at version 0"; "" for nothing."""
        edges = [self.playback.saved[edge] for edge in step.saved if self.playback.saved[edge].node == node]
        return join_few(list(dict.fromkeys(map(self._thing, edges))))

    def _thing(self, edge: SavedEdge) -> str:
        """Return a saved tensor's name, and its version if it has a counter."""
        name = self.names.name(edge.tensor)
        if edge.saved_version is None:
            return name
        return translated("{name} at version {version}", name=name, version=edge.saved_version)

    def _harm(self, edge: SavedEdge) -> str:
        """Return the sentence about a modified saved tensor."""
        keeper = self.playback.nodes[edge.node]
        node = keeper.name
        if keeper.place:
            node = translated("{node} (line {line})", node=node, line=keeper.place.line)
        version, tensor = self.playback.version_of(edge), self.names.name(edge.tensor)
        if not self.playback.is_reached(edge.node):
            return translated(
                "{node} keeps {tensor}, and its values are no longer those that were saved. This run is not affected: no "
                "path of backward leads to {node}.", node=node, tensor=tensor,
            )  # fmt: skip
        if self.playback.condition(edge) == "stale":
            return translated(
                "{node} keeps {tensor} from version {saved}, and it is now at version {version}: backward will raise an error.",
                node=node, tensor=tensor, saved=edge.saved_version, version=version,
            )  # fmt: skip
        if version is None:
            return translated(
                "{node} keeps {tensor}; its values are no longer those that were saved, and it has no version counter: "
                "the check will pass and the gradient will be wrong.", node=node, tensor=tensor,
            )  # fmt: skip
        return translated(
            "{node} keeps {tensor}; its values are no longer those that were saved, and its version is still {version}: "
            "the check will pass and the gradient will be wrong.", node=node, tensor=tensor, version=version,
        )  # fmt: skip

    def _named(self, step: Step) -> str:
        """Return the effect of a line that a check names; "" for every other line."""
        named = lines_named_by_check(self.playback.recording).get(step.place)
        if named is None:
            return ""
        text = localized(named.sentence, self.playback.recording.verdict.messages).rstrip(".。")
        return translated("Line {line}: {told}.", line=step.place.line, told=text)

    def _freed(self, step: Step) -> str:
        """Return the sentence about saved tensors that backward freed."""
        if not step.freed:
            return ""
        freed = count_noun(len(step.freed), "{count} saved tensor", "{count} saved tensors")
        if step.index in self._refused:
            return translated("Backward starts, frees {freed}, and stops with an error.", freed=freed)
        return translated("Backward runs, and then frees {freed}.", freed=freed)

    def _visit(self, visit: BackwardStep) -> list[str]:
        """Return the sentences about backward's visit to a node."""
        node = self.playback.nodes[visit.node]
        leaf = node.name.endswith("AccumulateGrad")
        who = self.names.short(node.tensor)
        if visit.status == "raised":
            return [translated("Backward reaches {node} and stops.", node=node.name), self._refusal(visit.node)]
        got = visit.got or translated("nothing")
        if visit.is_wrong:
            got = translated("{got}; the right value is {right}", got=got, right=visit.true)
        wrong = [translated("The gradient is wrong here.")] if visit.is_wrong else []
        if leaf:
            reached = translated("Backward arrives at {leaf}.", leaf=who)
            return [reached, *wrong, translated("{leaf}.grad gets {got}.", leaf=who, got=got)]
        reached = translated("Backward reaches {node}.", node=node.name)
        return [reached, *wrong, translated("It passes on {got}.", got=got)]

    def _refusal(self, node: int) -> str:
        """Return the reason why backward stops at a node: the saved tensor at another version, else PyTorch's message."""
        stale = [
            e for e in self.playback.recording.saved if e.node == node and e.id in self.playback.edges and e.is_stale
        ]
        if stale:
            parts = (
                translated(
                    "{name} was saved at version {saved} and is at version {version}.",
                    name=self.names.name(e.tensor), saved=e.saved_version, version=e.version_now,
                )
                for e in stale
            )  # fmt: skip
            return join_sentences(dict.fromkeys(parts))
        return self._error(240)

    def _verdict(self) -> list[str]:
        """Return the outcome, a fix, the error and the wrong gradients."""
        verdict = self.playback.recording.verdict
        if is_refused(verdict):
            text = translated("The check fails: {reason}.", reason=verdict.refusal)
            return [text, about_refused(verdict)]
        parts = [translated("Outcome: {outcome}, {meaning}.", outcome=verdict.outcome, meaning=headline(verdict))]
        proven = next((fix for fix in verdict.fixes if fix.proven), None)
        if proven:
            after = clip(proven.after, 90)
            parts.append(translated("A proven fix, line {line}: {code}", line=proven.line, code=after))
        if verdict.error:
            parts.append(f"{verdict.error.type}: {self._error(220)}")
        wrong = [
            (name, gradient)
            for name, gradient in verdict.gradients.items()
            if gradient.got is not None and is_wrong(gradient)
        ]
        for name, gradient in reversed(wrong):
            got, right = short_values(gradient.got), short_values(gradient.true)
            named = gradient_name(name, gradient)
            parts.append(
                translated("{gradient} is {got}; the right value is {right}.", gradient=named, got=got, right=right)
            )
        return parts


def decisive_frame(recording: Recording, frames: list[Frame]) -> int:
    """Return the number of the decisive frame.

    This is the last frame of the last line that a check names and that ran, else of the last write into the saved tensor
    of the first harm, else of the last harmful write, else of the error in forward, else of the verdict.
    """
    last = {f.place: f.number for f in frames if f.step}
    indexes = [last[named.place] for named in recording.verdict.named if named.place in last]
    if indexes:
        return indexes[-1]
    writes = [f for f in frames if f.step and f.step.writes]
    harmed = {f.number: {edge for write in f.step.writes for edge in write.harmed} for f in writes if f.step}
    harm_edges = [harm.edge for harm in recording.verdict.harms if any(harm.edge in edges for edges in harmed.values())]
    harmful = [number for number, edges in harmed.items() if (harm_edges[0] in edges if harm_edges else edges)]
    # A write that autograd did not record harms no saved tensor, but the verdict or a check may know its line.
    places = [harm.mutated_at[0] for harm in recording.verdict.harms if harm.mutated_at][:1]
    if recording.verdict.refusal and not places:
        places = [write.place for write in unrecorded_writes(recording)]
    harmful = harmful or [f.number for f in writes if f.place in places]
    if harmful and not is_refused(recording.verdict):
        return harmful[-1]
    if recording.verdict.outcome == "raises-forward" and len(frames) > 1:
        return frames[-2].number
    return frames[-1].number
