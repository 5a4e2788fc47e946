import { Duplex } from "node:stream";
import { buffer } from "node:stream/consumers";
import { copyRequest, partGone } from "@svc/proto";
import type { OpenCopyFiles } from "./node-files.ts";

/** A node whose copies are in memory, and that answers as agents do. */
export interface TestNode {
  open: OpenCopyFiles;
  /** Puts a file there, in place of the one of its name. */
  put(copyId: string, path: string, content: Buffer | string): void;
  append(copyId: string, path: string, content: string): void;
  remove(copyId: string, path: string): void;
  /** All files of a copy by path. */
  filesOf(copyId: string): Record<string, string>;
  /** Is called before each request is answered; throws in the node's place. */
  before: (request: { do: string; parts?: readonly { path: string }[] }) => void;
}

interface File {
  content: Buffer;
  ino: number;
  mtime: number;
}

export function testNode(): TestNode {
  const copies = new Map<string, Map<string, File>>();
  let ticks = 1;
  const of = (copyId: string): Map<string, File> => {
    const files = copies.get(copyId) ?? new Map<string, File>();
    copies.set(copyId, files);
    return files;
  };

  function answer(copyId: string, asked: Buffer): Buffer {
    const end = asked.indexOf(10);
    const request = copyRequest.parse(JSON.parse(asked.subarray(0, end).toString()));
    node.before(request);
    const files = of(copyId);
    switch (request.do) {
      case "list": {
        const listed = [...files].filter(([path]) => path !== "status");
        return Buffer.from(
          JSON.stringify({
            status: files.get("status")?.content.toString() ?? "",
            files: listed.map(([path, { content, ino, mtime }]) => ({
              ...{ path, size: content.length, ino: String(ino), mtimeNs: String(mtime) },
            })),
          }),
        );
      }
      case "read":
        return Buffer.concat(
          request.parts.map(({ path, at, length }) => {
            const content = files.get(path)?.content.subarray(at, at + length);
            const told = Buffer.alloc(4);
            const isThere = content?.length === length;
            told.writeUInt32BE(isThere ? length : partGone);
            return isThere ? Buffer.concat([told, content]) : told;
          }),
        );
      case "write": {
        let from = end + 1;
        for (const { path, at, length } of request.parts) {
          const before = files.get(path)?.content ?? Buffer.alloc(0);
          const content = Buffer.alloc(Math.max(before.length, at + length));
          before.copy(content);
          asked.copy(content, at, from, from + length);
          from += length;
          node.put(copyId, path, content);
        }
        return Buffer.from('{"ok":true}');
      }
    }
  }

  const node: TestNode = {
    before: () => {},
    open: async ({ copyId }, signal) => {
      signal.throwIfAborted();
      return Duplex.from(async function* (asked: Duplex) {
        yield answer(copyId, await buffer(asked));
      });
    },
    put(copyId, path, content) {
      ticks += 1;
      of(copyId).set(path, { content: Buffer.from(content), ino: ticks, mtime: ticks });
    },
    append(copyId, path, content) {
      const file = of(copyId).get(path);
      if (file === undefined) throw new Error(`no file ${path}`);
      ticks += 1;
      of(copyId).set(path, { ...file, content: Buffer.concat([file.content, Buffer.from(content)]), mtime: ticks });
    },
    remove: (copyId, path) => void of(copyId).delete(path),
    filesOf: (copyId) =>
      Object.fromEntries([...of(copyId)].map(([path, { content }]) => [path, content.toString("latin1")])),
  };
  return node;
}
