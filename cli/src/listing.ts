import type { Screen } from "./command.ts";
import { displayWidth, oneLine, table, wrapText } from "./format.ts";

/**
 * Things in a table with a title for each column; where the terminal is too narrow for it, one below the other: what a
 * thing is called, and then each column in a line of its own. Numbers in `alignRight` are columns that line up there;
 * `below` has lines that follow each thing.
 */
export function listing(
  titles: readonly string[],
  rows: readonly (readonly string[])[],
  { paint, columns }: Pick<Screen, "paint" | "columns">,
  { alignRight = [], below = [] }: { alignRight?: readonly number[]; below?: readonly (readonly string[])[] } = {},
): string {
  const [head = "", ...lines] = table([titles.map((title) => paint("dim", title)), ...rows], alignRight).split("\n");
  if (columns === null || Math.max(...[head, ...lines].map(displayWidth)) <= columns)
    return [head, ...lines.flatMap((line, at) => [line, ...(below[at] ?? [])])].join("\n");
  const width = Math.max(...titles.slice(1).map((title) => title.length));
  const stacked = rows.flatMap(([name = "", ...cells], at) => [
    paint("bold", oneLine(name)),
    ...cells.flatMap((cell, column) => {
      const title = `  ${paint("dim", (titles[column + 1] ?? "").toLowerCase().padEnd(width))}`;
      const lines = wrapText(oneLine(cell), columns - width - 4);
      return lines.map((line, index) => `${index === 0 ? title : " ".repeat(width + 2)}  ${line}`.trimEnd());
    }),
    ...(below[at] ?? []),
  ]);
  return stacked.join("\n");
}
