"""Commands and events: what crosses between the app and the engine thread.

Frozen dataclasses of plain data only. The app puts commands on the engine's queue; the engine answers with
events. Every event about a request carries its ``request_id``; an event about the model carries the path.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from engine.config import KVType as KVType  # the app imports these from here
from engine.decision.decision import Calibration as Calibration
from engine.decision.decision import Decision as Decision
from engine.grammar.response_format import FormatKind as FormatKind
from engine.grammar.response_format import PrepareForms as PrepareForms
from engine.grammar.response_format import ResponseFormat as ResponseFormat
from engine.grammar.result import FieldCertainty as FieldCertainty
from engine.grammar.result import StructuredResult as StructuredResult
from engine.model_messages import EjectModel as EjectModel
from engine.model_messages import LoadModel as LoadModel
from engine.model_messages import LoadPhase as LoadPhase
from engine.model_messages import ModelEjected as ModelEjected
from engine.model_messages import ModelInfo as ModelInfo
from engine.model_messages import ModelLoaded as ModelLoaded
from engine.model_messages import ModelLoadFailed as ModelLoadFailed
from engine.model_messages import ModelLoading as ModelLoading
from engine.plain_data import dataclass
from engine.policies import ContextPolicy as ContextPolicy
from engine.policies import Priority as Priority
from engine.policies import RereadReason as RereadReason
from engine.sampling.params import SamplingParams as SamplingParams
from engine.snapshot_messages import AskSnapshotStorage as AskSnapshotStorage
from engine.snapshot_messages import ClearSnapshots as ClearSnapshots
from engine.snapshot_messages import ForgetConversation as ForgetConversation
from engine.snapshot_messages import SetSnapshotQuota as SetSnapshotQuota
from engine.snapshot_messages import SnapshotStorage as SnapshotStorage
from engine.tools import Tool as Tool
from engine.tools import ToolCall as ToolCall


class Role(str, Enum):
    """Who a message is from."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Channel(str, Enum):
    """What a streamed piece of text belongs to."""

    ANSWER = "answer"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"


class FinishReason(str, Enum):
    """Why a request ended."""

    STOP = "stop"  # an end-of-generation token or a stop string
    LENGTH = "length"  # max_tokens reached
    CONTEXT = "context"  # the context is full
    ABORTED = "aborted"


@dataclass(frozen=True)
class Message:
    """One message of a conversation, as the chat template sees it.

    An assistant's may hold ``tool_calls``; a tool's says whose result it is by ``name`` and ``call_id``.
    """

    role: Role
    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    name: str = ""
    call_id: str = ""


# ---------------------------------------------------------------------------------------------- commands


@dataclass(frozen=True)
class GenerateRequest:
    """Generate an answer to ``messages`` (through the chat template) or to the raw text ``prompt``.

    Exactly one of ``messages`` and ``prompt`` is given. ``max_tokens`` 0 means up to the context's end.
    When the last message is the assistant's it is continued, not answered. ``conversation_id`` names the
    conversation that it belongs to; what was read for one is remembered together. With ``logprobs`` each token
    comes with so many alternatives, as a ``TokenAlternatives`` event. ``response_format`` is the form that the
    answer must have, and ``certainty`` asks how sure the model was of each value of a JSON answer;
    ``RequestFinished`` says what came of both. The model may call the ``tools``; each call is a ``ToolCalled``
    event, and the answer ends with it.
    """

    request_id: str
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int = 0
    stop: tuple[str, ...] = ()
    conversation_id: str = ""
    logprobs: int = 0
    priority: Priority = Priority.NORMAL
    response_format: ResponseFormat | None = None
    certainty: bool = False
    tools: tuple[Tool, ...] = ()
    context_policy: ContextPolicy = ContextPolicy.STOP


@dataclass(frozen=True)
class PrefillDraft:
    """Read ahead what the person is about to send, while nothing else is to be computed.

    ``messages`` end with the draft as it is now, or a part that will hardly change: what was pasted or attached.
    A new draft takes the place of the last one, and a request of the same conversation takes over what was read.
    ``tools`` are those that the request will offer. With ``only_kept`` nothing is computed: what the disk has of
    the conversation comes back, so that it is there when the person sends. Without messages reading ends. Never
    answered.
    """

    conversation_id: str
    messages: tuple[Message, ...] = ()
    context_policy: ContextPolicy = ContextPolicy.STOP
    tools: tuple[Tool, ...] = ()
    only_kept: bool = False


@dataclass(frozen=True)
class SetPriority:
    """Change the priority of a request, because the person has turned to another conversation."""

    request_id: str
    priority: Priority


@dataclass(frozen=True)
class Decide:
    """How likely is each of ``choices`` as the answer to ``messages``? Answered by ``Decided``.

    ``{choices}`` in the text of a message is where they are listed. With ``shuffles`` the result is the mean over
    several orders of the list. ``content_free`` are the same messages without the content that is decided about;
    what the model prefers there is divided out. ``calibration`` was fitted on examples for the same choices.
    """

    request_id: str
    messages: tuple[Message, ...]
    choices: tuple[str, ...]
    shuffles: bool = False
    content_free: tuple[Message, ...] = ()
    calibration: Calibration | None = None


@dataclass(frozen=True)
class AbortRequest:
    """Stop a request; it ends with ``FinishReason.ABORTED`` and keeps its text."""

    request_id: str


@dataclass(frozen=True)
class CountTokens:
    """Count the tokens of a text; answered by ``TokensCounted`` with the same ``request_id``.

    Not answered where another one comes before it is: it takes its place.
    """

    request_id: str
    text: str


@dataclass(frozen=True)
class Shutdown:
    """Abort everything and end the engine thread."""


Command = (
    LoadModel
    | EjectModel
    | GenerateRequest
    | PrefillDraft
    | PrepareForms
    | Decide
    | SetPriority
    | AbortRequest
    | CountTokens
    | ForgetConversation
    | SetSnapshotQuota
    | ClearSnapshots
    | AskSnapshotStorage
    | Shutdown
)


# ------------------------------------------------------------------------------------------------ events


@dataclass(frozen=True)
class RequestStarted:
    """The prompt is tokenized; ``num_reused_tokens`` of it are in the KV cache already."""

    request_id: str
    num_prompt_tokens: int
    num_reused_tokens: int


@dataclass(frozen=True)
class ContextShifted:
    """Messages of a request are outside the context and not read by the model.

    Comes before the request starts and, when its answer outgrows the context, again while it runs.
    ``dropped_messages`` are indices into the request's messages.
    """

    request_id: str
    dropped_messages: tuple[int, ...]
    num_prompt_tokens: int
    context_length: int


@dataclass(frozen=True)
class PromptProgress:
    """Tokens of the prompt that have been computed (reused ones included)."""

    request_id: str
    num_computed_tokens: int
    num_prompt_tokens: int


@dataclass(frozen=True)
class Delta:
    """A streamed piece of text; ``num_completion_tokens`` counts all tokens generated so far."""

    request_id: str
    channel: Channel
    text: str
    num_completion_tokens: int


@dataclass(frozen=True)
class ToolCalled:
    """The model has written a whole call; its text came before as deltas of ``Channel.TOOL_CALL``."""

    request_id: str
    call: ToolCall


@dataclass(frozen=True)
class TokenProbability:
    """A token as the model saw it before any mask, penalty or temperature.

    ``text`` alone need not be whole characters; what is none is U+FFFD. ``logprob`` is the natural logarithm.
    """

    token_id: int
    text: str
    logprob: float


@dataclass(frozen=True)
class TokenAlternatives:
    """A new token, and the likeliest ones at its place, likeliest first; comes before the delta that shows it.

    ``num_completion_tokens`` counts it. ``chosen`` is None where a constraint forced the token, and then there are
    no alternatives: the model was not asked.
    """

    request_id: str
    num_completion_tokens: int
    token_id: int
    text: str
    chosen: TokenProbability | None = None
    alternatives: tuple[TokenProbability, ...] = ()


@dataclass(frozen=True)
class RequestStats:
    """Honest numbers of a finished request; rates exclude the other phase."""

    num_prompt_tokens: int
    num_reused_tokens: int
    num_completion_tokens: int
    prompt_ms: float
    first_token_ms: float  # from submission
    generation_ms: float
    tokens_per_second: float  # of generation
    seed: int
    num_snapshot_tokens: int = 0  # of those reused, from the disk
    reread_reason: RereadReason = RereadReason.NOTHING  # why more than the new text was read
    num_reread_tokens: int = 0  # read again
    num_read_tokens: int = 0  # of the prompt, computed for this request, and of the completion, computed again
    num_forced_tokens: int = 0  # of the completion, that a constraint forced
    num_proposed_tokens: int = 0  # that were proposed and verified
    num_accepted_tokens: int = 0  # of these, that were right
    context_length: int = 0


@dataclass(frozen=True)
class RequestFinished:
    """The end of a request that ran; ``structured`` where its answer was to have a form."""

    request_id: str
    reason: FinishReason
    stats: RequestStats
    structured: StructuredResult | None = None


@dataclass(frozen=True)
class ContextOverflow:
    """What a request needs of the context, and what there is.

    With ``can_drop_turns`` it would fit under ``ContextPolicy.KEEP_RECENT``: the person may be asked. Otherwise a
    message alone is too long.
    """

    num_tokens: int
    is_least: bool  # it is at least so many; they were not counted
    context_length: int
    can_drop_turns: bool

    @property
    def count(self) -> str:
        """How many tokens it needs, in words."""
        return f"at least {self.num_tokens:,}" if self.is_least else f"{self.num_tokens:,}"


@dataclass(frozen=True)
class RequestFailed:
    """A request ended with an error; text streamed before stays valid. ``message`` is one sentence.

    ``overflow`` says more where the request does not fit into the context.
    """

    request_id: str
    message: str
    overflow: ContextOverflow | None = None


@dataclass(frozen=True)
class Decided:
    """Answer to ``Decide``."""

    request_id: str
    decision: Decision


@dataclass(frozen=True)
class TokensCounted:
    """Answer to ``CountTokens``."""

    request_id: str
    num_tokens: int


@dataclass(frozen=True)
class Notice:
    """Something the person should know that is no failure: a replaced template, a folded system prompt."""

    message: str
    request_id: str | None = None


@dataclass(frozen=True)
class EngineStopped:
    """The last event of an engine thread."""


Event = (
    ModelLoading
    | ModelLoaded
    | ModelLoadFailed
    | ModelEjected
    | RequestStarted
    | ContextShifted
    | PromptProgress
    | Delta
    | ToolCalled
    | TokenAlternatives
    | RequestFinished
    | RequestFailed
    | Decided
    | TokensCounted
    | SnapshotStorage
    | Notice
    | EngineStopped
)
