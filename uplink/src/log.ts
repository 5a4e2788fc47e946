/** The part of a pino logger that this package writes to. */
export interface LinkLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}
