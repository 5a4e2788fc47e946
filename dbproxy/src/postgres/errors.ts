// @pure
import { type Refusal, refusalTexts } from "../refusals.ts";

/** ErrorResponse, after which a client of Postgres expects the end of the connection. */
export function errorResponse(why: Refusal): Buffer {
  const { message, postgres: state } = refusalTexts[why];
  const fields = ["SFATAL", "VFATAL", `C${state}`, `M${message}`].map((field) => `${field}\0`).join("");
  const body = Buffer.from(`${fields}\0`);
  const head = Buffer.alloc(5);
  head.write("E");
  head.writeUInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}
