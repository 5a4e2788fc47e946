/**
 * Splits a byte stream into lines, whatever its chunks. A line longer than `limit` bytes is cut there.
 * Call the returned function with each chunk, and with null at the end.
 */
export function createLineSplitter(
  onLine: (line: string) => void,
  limit = 1024 * 1024,
): (chunk: Buffer | null) => void {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    if (chunk === null) {
      if (rest.length > 0) onLine(rest.toString("utf8"));
      rest = Buffer.alloc(0);
      return;
    }
    let data = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      const at = data.indexOf(0x0a);
      if (at < 0 && data.length < limit) break;
      const end = at < 0 || at > limit ? limit : at;
      onLine(data.subarray(0, end).toString("utf8"));
      data = data.subarray(end === at ? end + 1 : end);
    }
    rest = data;
  };
}
