/** A layer that cannot be unpacked, or not without surprises. The message is for the person who deployed. */
export class BadLayer extends Error {
  override readonly name = "BadLayer";
}

const blockBytes = 512;
/** Of one extended header; engines read no longer ones either. */
const extensionBytesMax = 1024 * 1024;
const withContent = (type: string): boolean => !"123456".includes(type);

/**
 * Walks through a tar as an engine would, from header to header, and refuses one that unpacks to more than it has
 * bytes: with sparse files a few of them fill a disk. Holds one header at a time.
 */
export class TarSize {
  /** Of the archive so far. */
  bytes = 0;
  readonly #header = Buffer.alloc(blockBytes);
  #filled = 0;
  /** Content and padding before the next header. */
  #left = 0;
  #extension: { data: Buffer; filled: number } | null = null;
  #nextSize: number | null = null;
  #ended = false;

  add(chunk: Uint8Array): void {
    this.bytes += chunk.length;
    for (let at = 0; at < chunk.length && !this.#ended; ) {
      const piece = this.#left > 0 ? chunk.subarray(at, at + this.#left) : this.#fill(chunk.subarray(at));
      at += piece.length;
      if (this.#left > 0) this.#pass(piece);
      else if (this.#filled === blockBytes) this.#takeHeader();
    }
  }

  /** To be called when there is no more. */
  end(): void {
    if (!this.#ended && (this.#left > 0 || this.#filled > 0)) throw new BadLayer("A layer of the image is cut off.");
  }

  #fill(rest: Uint8Array): Uint8Array {
    const piece = rest.subarray(0, blockBytes - this.#filled);
    this.#header.set(piece, this.#filled);
    this.#filled += piece.length;
    return piece;
  }

  #pass(piece: Uint8Array): void {
    this.#left -= piece.length;
    const extension = this.#extension;
    if (extension === null) return;
    const wanted = piece.subarray(0, extension.data.length - extension.filled);
    extension.data.set(wanted, extension.filled);
    extension.filled += wanted.length;
    if (this.#left > 0) return;
    this.#nextSize = readExtension(extension.data) ?? this.#nextSize;
    this.#extension = null;
  }

  #takeHeader(): void {
    this.#filled = 0;
    const header = this.#header;
    if (header.every((byte) => byte === 0)) {
      this.#ended = true;
      return;
    }
    if (!hasRightSum(header)) throw new BadLayer("A layer of the image is not a tar archive.");
    const type = String.fromCharCode(header[156] ?? 0);
    if (type === "S") throw sparse();
    const size = withContent(type) ? sizeOf(header) : 0;
    if (type === "x") {
      if (size > extensionBytesMax) throw new BadLayer("A layer of the image has too long a header.");
      this.#extension = size > 0 ? { data: Buffer.alloc(size), filled: 0 } : null;
      this.#left = padded(size);
    } else if (type === "g" || type === "L" || type === "K") {
      this.#left = padded(size);
    } else {
      this.#left = withContent(type) ? padded(this.#nextSize ?? size) : 0;
      this.#nextSize = null;
    }
  }
}

const sparse = () => new BadLayer("A layer of the image has sparse files, which are not supported.");
const padded = (size: number): number => Math.ceil(size / blockBytes) * blockBytes;

function hasRightSum(header: Buffer): boolean {
  let unsigned = 8 * 32;
  let signed = 8 * 32;
  for (const [at, byte] of header.entries()) {
    if (at >= 148 && at < 156) continue;
    unsigned += byte;
    signed += byte > 127 ? byte - 256 : byte;
  }
  const told = octal(header.subarray(148, 156));
  return told === unsigned || told === signed;
}

const octal = (field: Buffer): number => Number.parseInt(/[0-7]+/.exec(field.toString("latin1"))?.[0] ?? "0", 8);

/** Octal, or binary where it does not fit. */
function sizeOf(header: Buffer): number {
  const field = header.subarray(124, 136);
  const first = field[0] ?? 0;
  const size = first >= 0x80 ? field.subarray(1).reduce((sum, byte) => sum * 256 + byte, first & 0x7f) : octal(field);
  if (!Number.isSafeInteger(size)) throw new BadLayer("A layer of the image has an impossible file size.");
  return size;
}

/** The size that an extended header gives to the next entry; null when it gives none. */
function readExtension(data: Buffer): number | null {
  let size: number | null = null;
  for (let at = 0; at < data.length; ) {
    const space = data.indexOf(0x20, at);
    const length = Number(data.subarray(at, space === -1 ? at : space).toString("latin1"));
    if (!Number.isInteger(length) || length < 5 || at + length > data.length)
      throw new BadLayer("A layer of the image has a damaged header.");
    const record = data.subarray(space + 1, at + length - 1).toString("latin1");
    if (record.startsWith("GNU.sparse.")) throw sparse();
    const told = /^size=(\d{1,15})$/.exec(record)?.[1];
    if (told !== undefined) size = Number(told);
    at += length;
  }
  return size;
}
