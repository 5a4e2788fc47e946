/**
 * The lines that a container wrote since an earlier end of it, which are those of its last run: its log goes on with each
 * start. All of them where there was none, or the clock was set back in between.
 *
 * @param log each line behind its time stamp
 * @param endedBefore when it ended before, RFC 3339; anything else when it did not
 */
export function lastRunOf(log: string, endedBefore: string, endedAt: string): string {
  const beforeMs = Date.parse(endedBefore);
  if (!(beforeMs < Date.parse(endedAt))) return log;
  const isEarlier = (line: string): boolean => Date.parse(line.slice(0, line.indexOf(" "))) <= beforeMs;
  return log
    .split("\n")
    .filter((line) => !isEarlier(line))
    .join("\n");
}
