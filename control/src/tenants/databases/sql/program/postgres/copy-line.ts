// @pure
/**
 * The line of a file at which COPY into `table` was refused, by what the server says of where it was; null where it names none, as
 * for what it looks at once it has all rows. What a trigger did stands before it.
 */
export function lineOfCopy(where: string, table: string): number | null {
  const head = `COPY ${table}, line `;
  const at = where.startsWith(head) ? 0 : where.indexOf(`\n${head}`) + 1;
  if (at === 0 && !where.startsWith(head)) return null;
  const [digits] = /^\d+/.exec(where.slice(at + head.length)) ?? [];
  return digits === undefined ? null : Number(digits);
}
