import type { EngineRefusal } from "../session.ts";

/** Access denied to a user or to a database; no such database; the server ends; the user is kept out for a while. */
const notReady = new Set([1044, 1045, 1049, 1053, 1698, 4151]);

interface ServerError extends Error {
  errno: number;
  sqlState: string;
  sqlMessage: string;
}

/** The driver's own failures have no state, or one of the client's. */
const isServerError = (error: unknown): error is ServerError =>
  error instanceof Error && typeof (error as Partial<ServerError>).sqlMessage === "string" && "errno" in error;

/** What the server said, for whoever sent the statement; null when it said nothing. */
export function mariadbRefusal(error: unknown): EngineRefusal | null {
  if (!isServerError(error)) return null;
  const { errno, sqlState, sqlMessage } = error;
  return { message: `${sqlMessage} (${errno}, ${sqlState})`, isNotReady: notReady.has(errno) };
}
