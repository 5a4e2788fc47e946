// @pure
/** A row of a CSV: where it begins, counted from 1, and its fields; null is what has nothing between its commas, not even quotes. */
export interface CsvRecord {
  line: number;
  fields: (string | null)[];
}

/** The text is no CSV, or one beyond the bounds. */
export class CsvProblem extends Error {
  override readonly name = "CsvProblem";
  readonly line: number;
  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

export const tooLong = "It is longer than a row may be.";

export interface CsvReader {
  /** The one that the next character is in. */
  readonly line: number;
  /** The records that are whole now. */
  push(text: string): CsvRecord[];
  /** What is left; also a last line without its end. */
  end(): CsvRecord[];
}

export interface CsvBounds {
  /** Of a record, in UTF-16, its end not counted. */
  recordLengthMax: number;
  fieldsMax: number;
}

const [newline, carriageReturn, quote, comma] = [0x0a, 0x0d, 0x22, 0x2c];

/**
 * Reads CSV in any portions, as Postgres does: fields between commas, lines that end in LF or CRLF, and quotes around what has either in
 * it, doubled where they are meant. A text that is cut within quotes is a problem, and so is a record beyond the bounds.
 */
export function createCsvReader({ recordLengthMax, fieldsMax }: CsvBounds): CsvReader {
  let line = 1;
  let record: CsvRecord = { line, fields: [] };
  const field = createText();
  let length = 0;
  let isBegun = false;
  let isQuoted = false;
  let isInQuotes = false;
  /** After a quote within quotes: it ends them, unless another one follows. */
  let isQuoteOpen = false;
  let isAfterReturn = false;

  const endField = (): void => {
    if (record.fields.length === fieldsMax)
      throw new CsvProblem(record.line, "It has more fields than a table has columns.");
    const text = field.take();
    record.fields.push(text === "" && !isQuoted ? null : text);
    isQuoted = false;
  };
  const endRecord = (): CsvRecord => {
    endField();
    const ended = record;
    length = 0;
    isBegun = false;
    return ended;
  };
  function take(unit: number): void {
    if (!isBegun) {
      isBegun = true;
      record = { line, fields: [] };
    }
    length += 1;
    if (length > recordLengthMax) throw new CsvProblem(record.line, tooLong);
    if (isAfterReturn) throw new CsvProblem(line, "A carriage return stands outside of quotes.");
    if (isInQuotes) {
      if (unit === quote) {
        isInQuotes = false;
        isQuoteOpen = true;
      } else field.add(unit);
      if (unit === newline) line += 1;
      return;
    }
    if (unit === quote) {
      if (isQuoteOpen) field.add(quote);
      isQuoted = true;
      isInQuotes = true;
    } else if (unit === comma) endField();
    else if (unit === carriageReturn) isAfterReturn = true;
    else field.add(unit);
    isQuoteOpen = false;
  }

  return {
    get line() {
      return line;
    },
    push(text) {
      const records: CsvRecord[] = [];
      for (let at = 0; at < text.length; at += 1) {
        const unit = text.charCodeAt(at);
        if (unit !== newline || isInQuotes) {
          take(unit);
          continue;
        }
        if (!isBegun) record = { line, fields: [] };
        isAfterReturn = false;
        isQuoteOpen = false;
        records.push(endRecord());
        line += 1;
      }
      return records;
    },
    end() {
      if (isInQuotes) throw new CsvProblem(record.line, "The file ends within quotes.");
      return isBegun ? [endRecord()] : [];
    },
  };
}

/** A text that grows by single units: a string would be a chain of as many pieces. */
function createText() {
  let units = new Uint16Array(1024);
  let used = 0;
  return {
    add(unit: number): void {
      if (used === units.length) {
        const larger = new Uint16Array(used * 2);
        larger.set(units);
        units = larger;
      }
      units[used] = unit;
      used += 1;
    },
    /** All of it; the next one begins empty. */
    take(): string {
      const text = Buffer.from(units.buffer, 0, used * 2).toString("utf16le");
      used = 0;
      return text;
    },
  };
}
