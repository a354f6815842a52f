"""The words for how far an extraction is. Text only."""

from __future__ import annotations

from app.translation import localised, tr, trn
from engine.extraction.run import Progress


def progress_line(progress: Progress, *, is_running: bool) -> str:
    """ "128 of 200 rows · 41 rows a minute · about 2 min left"."""
    done = progress.num_done + progress.num_failed
    parts = [tr("{done} of {total} rows", done=_count(done), total=_count(progress.num_rows))]
    if progress.num_failed:
        parts.append(trn("1 failed", "{count} failed", progress.num_failed))
    if is_running and progress.rows_per_minute > 0:
        parts.append(tr("{rate} rows a minute", rate=_count(max(1, round(progress.rows_per_minute)))))
    if is_running and progress.seconds_left > 0:
        parts.append(tr("about {time} left", time=_duration(progress.seconds_left)))
    return " · ".join(parts)


def saving_line(progress: Progress) -> str:
    """ "Prefix of 412 tokens read once for 200 rows · 58 % of tokens forced by the schema"."""
    parts = []
    if progress.num_prefix_tokens and progress.num_rows > 1:
        parts.append(
            tr(
                "Prefix of {tokens} tokens read once for {rows} rows",
                tokens=_count(progress.num_prefix_tokens),
                rows=_count(progress.num_rows),
            )
        )
    if progress.forced_share > 0:
        share = f"{progress.forced_share * 100:.0f}"
        parts.append(tr("{share} % of tokens forced by the schema", share=share))
    return " · ".join(parts)


def _count(number: int) -> str:
    return localised(f"{number:,}")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return tr("{count} s", count=max(1, round(seconds)))
    minutes = round(seconds / 60)
    return tr("{count} min", count=minutes) if minutes < 90 else tr("{count} h", count=round(minutes / 60))
