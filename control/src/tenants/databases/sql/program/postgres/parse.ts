import { hasSqlDetails, loadModule, parseSync } from "libpg-query";
import { Refused } from "../../../../../stores/refused.ts";
import { type ParsedStatement, type ParseTree, statementsOf } from "./statements.ts";

/** A statement on its own, and how many characters stand before it. */
export interface Statement extends ParsedStatement {
  text: string;
  charactersBefore: number;
}

/** Splits a text at its statements, by the parser of the server's own version. Throws QUERY_ERROR where the server would, too. */
export async function parseStatements(text: string): Promise<Statement[]> {
  // The protocol ends texts with it: what follows would be read as something else than the parser saw.
  if (text.includes("\0")) throw new Refused("QUERY_ERROR", "Postgres takes no NUL characters.");
  await loadModule();
  const bytes = Buffer.from(text);
  return statementsOf(parse(text)).map((statement) => {
    const { offsetBytes, lengthBytes } = statement;
    const end = lengthBytes === 0 ? bytes.length : offsetBytes + lengthBytes;
    return {
      ...statement,
      text: bytes.toString("utf8", offsetBytes, end),
      charactersBefore: [...bytes.toString("utf8", 0, offsetBytes)].length,
    };
  });
}

function parse(text: string): ParseTree {
  try {
    return parseSync(text) as ParseTree;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const at = hasSqlDetails(error) ? ` (42601, character ${error.sqlDetails.cursorPosition + 1})` : "";
    throw new Refused("QUERY_ERROR", `${error.message}${at}`);
  }
}
