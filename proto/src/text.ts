/** C0 and C1 controls, line and paragraph separators, and the marks that reorder text. */
const unsafe = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/u;
const unsafeButLineBreaks = /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069\ufeff]/gu;
const halfPair = /[\ud800-\udfff]/u;

/** Whether `text` fits on one line of a terminal or page without surprises. */
export const isOneLine = (text: string): boolean => !unsafe.test(text) && !halfPair.test(text);

/** Whether `text` may be several lines but holds no other control character (a command, a description). */
export const isPlainText = (text: string): boolean => text.search(unsafeButLineBreaks) === -1 && !halfPair.test(text);

/**
 * `text` without control characters; line feeds and tabs stay. For text that came from a
 * machine outside (a registry, a build) and is shown to a person.
 */
export const stripControl = (text: string): string => text.replace(unsafeButLineBreaks, "").toWellFormed();

/** The first `maxBytes` bytes of `text` in UTF-8, never cutting a character; ends in "…" when something was left off. */
export function clip(text: string, maxBytes: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= maxBytes) return text;
  let end = Math.max(0, maxBytes - 3);
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return `${new TextDecoder().decode(bytes.subarray(0, end))}…`;
}

/** `1 file`, `2 files`. */
export const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** Bytes of `text` in UTF-8. */
export const utf8Length = (text: string): number => new TextEncoder().encode(text).length;
