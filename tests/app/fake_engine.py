"""A fake engine that speaks the protocol: answers come from a script, on a thread of its own or step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from engine import protocol as p


class FakeEngine:
    """Queues requests; the test moves it on with ``step``, ``finish`` and ``answer``."""

    def __init__(self, on_event: Callable[[p.Event], None]) -> None:
        self.on_event, self.commands, self.requests = on_event, list[p.Command](), list[p.GenerateRequest]()
        self.broken_models: set[str] = set()
        self.large_models: set[str] = set()
        self._num_said: Counter[str] = Counter()
        self.holds_loads = False
        self.loans: list[bool] = []

    def start(self) -> None: ...

    def lend_core(self, is_lent: bool) -> None:
        self.loans.append(is_lent)

    def stop(self, timeout_s: float = 5) -> bool:
        self.on_event(p.EngineStopped())
        return True

    def submit(self, command: p.Command) -> None:
        self.commands.append(command)
        match command:
            case p.LoadModel(path) if (
                not self.holds_loads and path.name in self.large_models and not command.takes_more
            ):
                self.on_event(p.ModelLoadFailed(path, f"{path.name}: too large", can_load_anyway=True))
            case p.LoadModel(path) if not self.holds_loads:
                self.load(path)
            case p.EjectModel():
                self.on_event(p.ModelEjected(Path("model.gguf")))
            case p.GenerateRequest(request_id):
                self.requests.append(command)
                self.on_event(p.RequestStarted(request_id, 10, 4))
            case p.AbortRequest(request_id) if any(r.request_id == request_id for r in self.requests):
                self.finish(request_id, p.FinishReason.ABORTED)
            case p.CountTokens(request_id, text):
                self.on_event(p.TokensCounted(request_id, len(text.split())))

    def load(self, path: Path) -> None:
        self.on_event(p.ModelLoading(path, p.LoadPhase.WEIGHTS, 0.5, "loading"))
        if path.name in self.broken_models:
            self.on_event(p.ModelLoadFailed(path, f"{path.name}: broken"))
        else:
            self.on_event(p.ModelLoaded(model_info(path), 1.0))

    def say(self, request_id: str, text: str, channel: p.Channel = p.Channel.ANSWER) -> None:
        self._num_said[request_id] += 1
        self.on_event(p.Delta(request_id, channel, text, self._num_said[request_id]))

    def finish(self, request_id: str, reason: p.FinishReason = p.FinishReason.STOP) -> None:
        self.requests = [request for request in self.requests if request.request_id != request_id]
        self.on_event(p.RequestFinished(request_id, reason, p.RequestStats(10, 4, 3, 1.0, 2.0, 3.0, 99.0, 7)))


def model_info(path: Path) -> p.ModelInfo:
    return p.ModelInfo(path, path.stem, "llama", "Q4_1", 1, 1, 2048, 2048, 100, 2, "CPU", 1, True)
