// @pure
import type { DatabaseEngine } from "@svc/proto";

/** Longer than any first answer. */
const answerMaxBytes = 16 * 1024;
/** "the database system is starting up", or shutting down. */
const cannotConnectNow = "57P03";
const protocolVersion = 196_608;

/** What a client says before the server says anything; empty where the server speaks first. */
export function openingOf(engine: DatabaseEngine): Uint8Array {
  return engine === "postgres" ? startupMessage("svc_probe") : new Uint8Array();
}

function startupMessage(user: string): Uint8Array {
  const words = new TextEncoder().encode(["user", user, "database", "postgres", "", ""].join("\0"));
  const message = new Uint8Array(8 + words.length);
  const view = new DataView(message.buffer);
  view.setUint32(0, message.length);
  view.setUint32(4, protocolVersion);
  message.set(words, 8);
  return message;
}

/** Whether a server that answers like this takes sessions; null while that is not to be told yet. */
export const judgeAnswer = (engine: DatabaseEngine, heard: Uint8Array): boolean | null =>
  engine === "postgres" ? judgePostgres(heard) : judgeMariadb(heard);

/**
 * Postgres asks for a password (`R`), or refuses (`E`) with a code: any but "cannot connect now" is of a server that is
 * there, and has for example as many sessions as it may have.
 */
function judgePostgres(heard: Uint8Array): boolean | null {
  if (heard.length < 5) return null;
  const kind = String.fromCharCode(heard[0] ?? 0);
  if (kind === "R") return true;
  if (kind !== "E") return false;
  const length = new DataView(heard.buffer, heard.byteOffset, heard.byteLength).getUint32(1);
  if (length > answerMaxBytes) return false;
  if (heard.length < 1 + length) return null;
  // Fields: a letter, text, and a zero each.
  const fields = new TextDecoder().decode(heard.subarray(5, 1 + length)).split("\0");
  const code = fields.find((field) => field.startsWith("C"))?.slice(1) ?? "";
  return code !== cannotConnectNow;
}

/** MariaDB greets with version 10 of its protocol, or with an error that is of a server that is there, too. */
function judgeMariadb(heard: Uint8Array): boolean | null {
  if (heard.length < 5) return null;
  return heard[4] === 10 || heard[4] === 0xff;
}
