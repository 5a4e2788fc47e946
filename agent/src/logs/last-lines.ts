/** At most so many whole lines from the end, within a size. The beginning of a line that alone is too long is cut off. */
export function lastLines(text: string, maxLines: number, maxBytes: number): string {
  const lines = text.split("\n");
  const isEnded = lines.at(-1) === "";
  return lastBytes(lines.slice(-(isEnded ? maxLines + 1 : maxLines)).join("\n"), maxBytes);
}

/** Whole lines from the end, within a size. */
export function lastBytes(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length <= maxBytes) return text;
  const tail = bytes.subarray(bytes.length - maxBytes);
  const lineEnd = tail.indexOf(0x0a);
  const isInsideTheOnlyLine = lineEnd === -1 || lineEnd === tail.length - 1;
  // The cut may have gone through a character.
  if (isInsideTheOnlyLine) return tail.toString("utf8").replace(/^\uFFFD+/, "");
  return tail.subarray(lineEnd + 1).toString("utf8");
}

export const countLines = (text: string): number => text.split("\n").filter((line) => line !== "").length;
