/** Why an archive is refused as a whole; the message is a clause that says which entry and what of it. */
export class RefusedArchiveError extends Error {
  override readonly name = "RefusedArchiveError";
  readonly reason: "invalid" | "too-large";

  constructor(reason: "invalid" | "too-large", message: string) {
    super(message);
    this.reason = reason;
  }
}

export const invalidArchive = (message: string): RefusedArchiveError => new RefusedArchiveError("invalid", message);
export const tooLargeArchive = (message: string): RefusedArchiveError => new RefusedArchiveError("too-large", message);

/** Besides what JSON escapes: controls above ASCII, separators of lines, and marks that reorder text. */
const unsafe = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** A name from an archive as it may stand in a message or a log. */
export const show = (name: string): string =>
  JSON.stringify(name.length > 120 ? `${name.slice(0, 120)}…` : name)
    .toWellFormed()
    .replace(unsafe, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
