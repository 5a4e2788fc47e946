import pino from "pino";

export type Log = pino.Logger;

/** Field names whose values never reach a log line. */
const redact = [
  "password",
  "secret",
  "token",
  "key",
  "env",
  "authorization",
  "cookie",
  "*.password",
  "*.secret",
  "*.token",
  "*.key",
  "*.env",
  "*.authorization",
  "*.cookie",
  "req.headers.authorization",
  "req.headers.cookie",
  'req.headers["x-api-key"]',
  // The multipart parser tells its options, which are the request's headers among others.
  "busboyOptions.headers",
];

/** The program's root logger: JSON lines, on stdout unless they are to go elsewhere. */
export const createLog = (level: string, program = "control", to?: pino.DestinationStream): Log => {
  const options = { level, base: { program }, redact: { paths: redact, censor: "[redacted]" } };
  return to === undefined ? pino(options) : pino(options, to);
};
