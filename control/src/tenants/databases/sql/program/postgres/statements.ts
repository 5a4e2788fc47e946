// @pure
/** A statement of a text, as the parser of Postgres sees it. */
export interface ParsedStatement {
  /** Such as `SelectStmt`. */
  kind: string;
  /** Of a statement about transactions, such as `TRANS_STMT_COMMIT`; null for others. */
  transaction: string | null;
  /** Where it begins in the text, in bytes of UTF-8. */
  offsetBytes: number;
  /** 0: up to the end. */
  lengthBytes: number;
}

/** What the parser gives, as far as it is read here. */
export interface ParseTree {
  stmts?: readonly { stmt?: Record<string, unknown>; stmt_location?: number; stmt_len?: number }[];
}

export function statementsOf({ stmts = [] }: ParseTree): ParsedStatement[] {
  return stmts.map(({ stmt = {}, stmt_location: offsetBytes = 0, stmt_len: lengthBytes = 0 }) => {
    const [kind = ""] = Object.keys(stmt);
    const { kind: transaction } = (stmt["TransactionStmt"] ?? {}) as { kind?: string };
    return { kind, transaction: kind === "TransactionStmt" ? (transaction ?? "") : null, offsetBytes, lengthBytes };
  });
}

/** Within a transaction that others began and end. */
const savepoints = ["TRANS_STMT_SAVEPOINT", "TRANS_STMT_RELEASE", "TRANS_STMT_ROLLBACK_TO"];

/**
 * Why the console does not run a statement; null when it does. What a statement is called says nothing of what it writes:
 * a transaction that is rolled back, or that may not write, sees to that, so the one thing to keep out is what would end it.
 */
export function statementProblem({ kind, transaction }: ParsedStatement, guarded: boolean): string | null {
  if (kind === "CopyStmt") return "COPY does not work here: it needs a client that sends or takes a file.";
  if (kind === "ListenStmt") return "LISTEN does not work here: the session ends with this request.";
  if (guarded && transaction !== null && !savepoints.includes(transaction)) {
    return "A dry run and a read-only query are one transaction, which the statement would end. Leave out BEGIN, COMMIT and ROLLBACK.";
  }
  return null;
}
