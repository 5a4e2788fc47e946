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
];

/** The program's root logger: JSON lines on stdout. */
export const createLog = (level: string, program = "control"): Log =>
  pino({ level, base: { program }, redact: { paths: redact, censor: "[redacted]" } });
