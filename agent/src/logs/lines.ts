import { StringDecoder } from "node:string_decoder";
import { stripVTControlCharacters } from "node:util";
import { createRedactor, redact } from "./redactor.ts";

/** Turns what a program wrote into lines that are safe to show. */
export interface SafeLines {
  /** The lines that are complete now. */
  push(chunk: Buffer): string[];
  /** The last line, when it came without an end. */
  end(): string[];
}

/** A longer line goes on in the next one. */
export const lineLengthMax = 4_000;

/**
 * Takes out secret values, terminal codes and other control characters. Of a line that was drawn again and again
 * with carriage returns only the last state is kept. The result does not depend on how the output was cut.
 *
 * @param secrets values that must not show
 */
export function createSafeLines(secrets: readonly string[]): SafeLines {
  const decoder = new StringDecoder("utf8");
  const redactor = createRedactor(secrets);
  let line = "";
  let returned = false;

  const split = (text: string): string[] => {
    const lines: string[] = [];
    const finish = (): void => {
      lines.push(safeLine(line));
      line = "";
    };
    for (const part of text.split(/(\r|\n)/)) {
      if (part === "") continue;
      if (part === "\n") finish();
      // What follows a carriage return takes the place of what stands there, unless it ends the line.
      else if (returned && part !== "\r") line = "";
      returned = part === "\r";
      if (part === "\n" || part === "\r") continue;
      line += part;
      while (line.length > lineLengthMax) {
        lines.push(safeLine(line.slice(0, lineLengthMax)));
        line = line.slice(lineLengthMax);
      }
    }
    return lines;
  };

  return {
    push: (chunk) => split(redactor.push(decoder.write(chunk))),
    end() {
      const lines = split(redactor.push(decoder.end()) + redactor.end());
      return line === "" ? lines : [...lines, safeLine(line)];
    },
  };
}

/** One line without terminal codes or other control characters. */
export const safeLine = (line: string): string =>
  stripVTControlCharacters(line)
    .replaceAll(/(?!\t)\p{Cc}/gu, " ")
    .trimEnd();

/**
 * The same for text that is whole, without secret values. They are looked for in what was written, where one may have
 * several lines, and in what is left of it.
 */
export const cleanLine = (text: string, secrets: readonly string[]): string =>
  redact(safeLine(redact(text, secrets)), secrets).slice(0, lineLengthMax);
