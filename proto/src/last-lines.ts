/** What stands between the reason of a failure and what the program that failed wrote last. */
const mark = " Last lines:\n";

/** A failure's message: its reason, and below it what the program wrote last. No lines: the reason alone. */
export const withLastLines = (reason: string, lines: readonly string[]): string =>
  lines.length === 0 ? reason : `${reason}${mark}${lines.join("\n")}`;

/** The two parts of such a message; no lines where there are none. */
export function splitLastLines(message: string): { reason: string; lastLines: string[] } {
  const at = message.indexOf(mark);
  if (at === -1) return { reason: message, lastLines: [] };
  return { reason: message.slice(0, at), lastLines: message.slice(at + mark.length).split("\n") };
}
