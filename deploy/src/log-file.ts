import { closeSync, mkdirSync, openSync, readFileSync, renameSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";

const sizeBytesMax = 8 * 1024 * 1024;

/** A program's log on disk, bounded: the file and one older generation (`.1`). */
export interface LogFile {
  write(chunk: string | Uint8Array): void;
  /** The last lines, oldest first. */
  tail(lines: number): string;
  close(): void;
}

export function openLogFile(path: string): LogFile {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  let file: number | null = openSync(path, "a", 0o600);
  let sizeBytes = statSync(path).size;
  const rotate = () => {
    if (file !== null) closeSync(file);
    renameSync(path, `${path}.1`);
    file = openSync(path, "a", 0o600);
    sizeBytes = 0;
  };
  return {
    write(chunk) {
      if (file === null) return;
      const bytes = typeof chunk === "string" ? Buffer.from(chunk) : chunk;
      if (sizeBytes + bytes.length > sizeBytesMax) rotate();
      writeSync(file, bytes);
      sizeBytes += bytes.length;
    },
    tail(lines) {
      try {
        return readFileSync(path, "utf8").trimEnd().split("\n").slice(-lines).join("\n");
      } catch {
        return "";
      }
    },
    close() {
      if (file !== null) closeSync(file);
      file = null;
    },
  };
}
