// @pure
import type { ExportFormat } from "../../requests.ts";

/** What stands around the rows of an export. Asked in the order in which rows are written. */
export interface Framing {
  beforeRow(): string;
  afterRow(bytes: number): void;
  /** After the last one. */
  end(): string;
}

/** A statement that is longer takes no more rows: servers bound what one may be. */
const statementBytesMax = 64 * 1024;

/** A list of objects, one a line. */
function jsonFraming(): Framing {
  let isEmpty = true;
  return {
    beforeRow() {
      const text = isEmpty ? "[\n" : ",\n";
      isEmpty = false;
      return text;
    },
    afterRow() {},
    end: () => (isEmpty ? "[]\n" : "\n]\n"),
  };
}

/** Rows that end themselves, below `head`. */
function csvFraming(head: string): Framing {
  let isEmpty = true;
  return {
    beforeRow() {
      const text = isEmpty ? head : "";
      isEmpty = false;
      return text;
    },
    afterRow() {},
    end: () => (isEmpty ? head : ""),
  };
}

/** Statements that begin with `head`, of as many rows as are not too long together. */
function sqlFraming({ preamble, head }: { preamble: string; head: string }): Framing {
  let isBegun = false;
  let bytesOfStatement: number | null = null;
  return {
    beforeRow() {
      if (bytesOfStatement !== null && bytesOfStatement < statementBytesMax) return ",\n";
      const before = isBegun ? ";\n" : preamble;
      isBegun = true;
      bytesOfStatement = 0;
      return `${before}${head}\n`;
    },
    afterRow(bytes) {
      bytesOfStatement = (bytesOfStatement ?? 0) + bytes;
    },
    end: () => (isBegun ? ";\n" : preamble),
  };
}

/**
 * @param heads what comes before the rows: of a CSV, of a file of SQL, and of each statement in it
 */
export function framingOf(format: ExportFormat, heads: { csv: string; preamble: string; insert: string }): Framing {
  switch (format) {
    case "json":
      return jsonFraming();
    case "csv":
      return csvFraming(heads.csv);
    case "sql":
      return sqlFraming({ preamble: heads.preamble, head: heads.insert });
  }
}
