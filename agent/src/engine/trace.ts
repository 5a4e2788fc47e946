import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import type { BuildTrace, BuildVertex } from "./engine.ts";

/**
 * Decodes one status message of BuildKit's control API (`moby.buildkit.v1.StatusResponse`): the steps that
 * changed and what they wrote. Everything else in it, such as download counters, is skipped.
 */
export function decodeTrace(bytes: Uint8Array): BuildTrace {
  const vertexes: BuildVertex[] = [];
  const logs: { vertex: string; text: Buffer }[] = [];
  readFields(bytes, {
    1: (reader) => vertexes.push(decodeVertex(reader.bytes())),
    3: (reader) => logs.push(decodeLog(reader.bytes())),
  });
  return { vertexes, logs };
}

/** So many in a row are no coincidence: one now and then is nothing that anybody asked for. */
const silentMax = 1_000;

/**
 * Takes message after message and says when there is nothing in them any more. Engines before 23.0 have a loop that splits
 * what steps wrote at 1 MiB and does not end once it did: it sends nothing, as fast as it can, until the call is given up.
 */
export function createSilenceWatch(): (message: string) => boolean {
  let silent = 0;
  return (message) => {
    silent = message === "" ? silent + 1 : 0;
    return silent >= silentMax;
  };
}

function decodeVertex(bytes: Uint8Array): BuildVertex {
  const vertex = { digest: "", name: "", cached: false, started: false, completed: false, error: "" };
  readFields(bytes, {
    1: (reader) => {
      vertex.digest = reader.string();
    },
    3: (reader) => {
      vertex.name = reader.string();
    },
    4: (reader) => {
      vertex.cached = reader.bool();
    },
    // Presence is all that matters of the two time stamps.
    5: (reader) => {
      vertex.started = reader.bytes().length >= 0;
    },
    6: (reader) => {
      vertex.completed = reader.bytes().length >= 0;
    },
    7: (reader) => {
      vertex.error = reader.string();
    },
  });
  return vertex;
}

function decodeLog(bytes: Uint8Array): { vertex: string; text: Buffer } {
  const log: { vertex: string; text: Buffer } = { vertex: "", text: Buffer.alloc(0) };
  readFields(bytes, {
    1: (reader) => {
      log.vertex = reader.string();
    },
    4: (reader) => {
      log.text = Buffer.from(reader.bytes());
    },
  });
  return log;
}

const typeOf: Readonly<Record<number, WireType>> = { 4: WireType.Varint };

/** Reads the known fields of a message; a field of another wire type than expected is skipped. */
function readFields(bytes: Uint8Array, known: Readonly<Record<number, (reader: BinaryReader) => unknown>>): void {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    const read = known[field];
    const isText = wireType === WireType.LengthDelimited;
    if (read !== undefined && (isText || typeOf[field] === wireType)) read(reader);
    else reader.skip(wireType, field);
  }
}
