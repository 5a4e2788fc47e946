import type { Transform } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { BadLayer, TarSize } from "./tar-size.ts";

const magicBytes = 6;
const unpackedPieceBytes = 256 * 1024;
/** Compressions that an engine recognises by these first bytes, whatever the manifest calls the layer. */
const compressions: { magic: readonly number[]; open: (() => Transform) | null }[] = [
  { magic: [0x1f, 0x8b, 0x08], open: () => createGunzip({ chunkSize: unpackedPieceBytes }) },
  { magic: [0x28, 0xb5, 0x2f, 0xfd], open: () => createZstdDecompress({ chunkSize: unpackedPieceBytes }) },
  { magic: [0x42, 0x5a, 0x68], open: null },
  { magic: [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00], open: null },
];

/** Gets to know what a layer unpacks to; throws when that is too much. */
export type CountBytes = (bytes: number) => void;

/**
 * Passes a layer on as it comes and unpacks it on the way, so that its end is reached only by one that an engine can
 * unpack too. `count` is called with each further number of unpacked bytes. Memory stays bounded whatever comes.
 * Throws what `count` and `layer` throw, and BadLayer once `layer` has ended well: that it is not what was asked for
 * says more than that it makes no sense.
 */
export async function* measured(layer: AsyncIterable<Buffer>, count: CountBytes): AsyncGenerator<Buffer> {
  using unpacker = new Unpacker(count);
  let bad: BadLayer | null = null;
  const attempt = async (step: Promise<void>): Promise<void> => {
    await step.catch((error: unknown) => {
      if (!(error instanceof BadLayer)) throw error;
      bad ??= error;
    });
  };
  for await (const chunk of layer) {
    if (bad === null) await attempt(unpacker.write(chunk));
    if (bad === null) yield chunk;
  }
  if (bad === null) await attempt(unpacker.end());
  if (bad !== null) throw bad;
}

/** One layer on its way to being understood. */
class Unpacker implements Disposable {
  readonly #size = new TarSize();
  readonly #count: CountBytes;
  /** The first bytes may come one by one, and what they are decides how to read the rest. */
  #head: Buffer = Buffer.alloc(0);
  #begun = false;
  #stream: Transform | null = null;
  #drained: Promise<void> = Promise.resolve();
  /** Lets go whoever waits for room in a stream that has come to its end. */
  #wake: () => void = () => {};

  constructor(count: CountBytes) {
    this.#count = count;
  }

  async write(chunk: Buffer): Promise<void> {
    if (this.#begun) return this.#feed(chunk);
    this.#head = Buffer.concat([this.#head, chunk]);
    if (this.#head.length < magicBytes) return;
    this.#begin();
    await this.#feed(this.#head);
  }

  async end(): Promise<void> {
    if (!this.#begun && this.#head.length > 0) throw new BadLayer("A layer of the image is not a tar archive.");
    if (this.#stream !== null && !this.#stream.destroyed) this.#stream.end();
    await this.#drained;
    this.#size.end();
  }

  [Symbol.dispose](): void {
    this.#stream?.destroy();
  }

  #begin(): void {
    this.#begun = true;
    const found = compressions.find(({ magic }) => magic.every((byte, at) => this.#head[at] === byte));
    if (found === undefined) return;
    if (found.open === null)
      throw new BadLayer("A layer of the image is compressed with something else than gzip or zstd.");
    this.#stream = found.open();
    this.#drained = this.#consume(this.#stream);
    // Whoever writes next hears of it.
    this.#drained.catch(() => {});
  }

  async #feed(chunk: Buffer): Promise<void> {
    const stream = this.#stream;
    if (stream === null) return this.#add(chunk);
    // It ended: by an error, which is told here, or well, and what comes behind its end is nobody's.
    if (stream.destroyed) return this.#drained;
    if (stream.write(chunk)) return;
    // A promise of its own each time: whatever is raced against one that lasts stays alive as long as that.
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      stream.once("drain", resolve);
    });
    if (stream.destroyed) await this.#drained;
  }

  async #consume(stream: Transform): Promise<void> {
    const parts = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await parts.next().catch((cause: unknown) => {
          throw new BadLayer("A layer of the image cannot be unpacked.", { cause });
        });
        if (next.done === true) return;
        this.#add(next.value);
      }
    } finally {
      stream.destroy();
      this.#wake();
    }
  }

  #add(chunk: Buffer): void {
    this.#size.add(chunk);
    this.#count(chunk.length);
  }
}
