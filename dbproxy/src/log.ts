import { type Logger, pino } from "pino";

export type Log = Logger;

/** The one logger of the process: JSON lines on stdout. No byte that passes is ever logged; what stands by itself in a log is cut here. */
export const createLog = (level: string): Log =>
  pino({
    level,
    base: { program: "dbproxy" },
    redact: { paths: ["password", "*.password", "key", "*.key"], censor: "[redacted]" },
  });
