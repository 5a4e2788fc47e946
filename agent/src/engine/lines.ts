/**
 * Splits a byte stream into lines, whatever its chunks. A line longer than `limit` bytes is cut there.
 * Call the returned function with each chunk, and with null at the end.
 */
export function createLineSplitter(
  onLine: (line: string) => void,
  limit = 1024 * 1024,
): (chunk: Buffer | null) => void {
  let parts: Buffer[] = [];
  let size = 0;
  const finish = (last: Buffer): void => {
    onLine(Buffer.concat([...parts, last]).toString("utf8"));
    parts = [];
    size = 0;
  };
  return (chunk) => {
    if (chunk === null) {
      if (size > 0) finish(Buffer.alloc(0));
      return;
    }
    let data = chunk;
    for (;;) {
      const at = data.indexOf(0x0a);
      if (at < 0 && size + data.length < limit) break;
      const end = at < 0 || size + at > limit ? limit - size : at;
      finish(data.subarray(0, end));
      data = data.subarray(end === at ? end + 1 : end);
    }
    if (data.length === 0) return;
    parts.push(data);
    size += data.length;
  };
}
