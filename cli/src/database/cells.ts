// @pure

/** How wide a value is shown at most: what is longer would push the other columns off the screen. */
const charactersMax = 120;

/** A value of a row in one line for people. */
export function cellText(value: unknown): string {
  const text =
    value === null || value === undefined ? "NULL" : typeof value === "string" ? value : JSON.stringify(value);
  const line = text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\r", "\\r").replaceAll("\t", "\\t");
  // A backslash is doubled only where it could be taken for one of ours.
  const shown = /[\n\r\t]/.test(text) ? line : text;
  const characters = [...shown];
  return characters.length <= charactersMax ? shown : `${characters.slice(0, charactersMax - 1).join("")}…`;
}
