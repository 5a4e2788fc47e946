// @pure
/** An app may have written something before the engine puts down that it runs. */
const startSlackMs = 20;

/**
 * The lines that a container wrote in its last run: its log goes on with each start. All of them where it is the first run,
 * or the clock was set back in between. Under load the engine stamps lines of the run before after that run's end, but not
 * after the next start.
 *
 * @param log each line behind its time stamp
 * @param run times as RFC 3339; `endedBefore` is anything else when it did not end before, `startedAt` when it is not known
 */
export function lastRunOf(log: string, run: { endedBefore: string; startedAt: string; endedAt: string }): string {
  const [endedBeforeMs, endedMs] = [Date.parse(run.endedBefore), Date.parse(run.endedAt)];
  if (!(endedBeforeMs < endedMs)) return log;
  const startedMs = Date.parse(run.startedAt) - startSlackMs;
  const beforeMs = startedMs > endedBeforeMs && startedMs < endedMs ? startedMs : endedBeforeMs;
  const isEarlier = (line: string): boolean => Date.parse(line.slice(0, line.indexOf(" "))) <= beforeMs;
  return log
    .split("\n")
    .filter((line) => !isEarlier(line))
    .join("\n");
}
