/** Where a page of deployments ended, opaque to clients. */
export const writeCursor = (number: number): string => Buffer.from(`d${number}`).toString("base64url");

/** The number inside a cursor; null for anything that is none. */
export function readCursor(cursor: string): number | null {
  const digits = /^d([0-9]{1,15})$/.exec(Buffer.from(cursor, "base64url").toString("latin1"))?.[1];
  return digits === undefined ? null : Number(digits);
}
