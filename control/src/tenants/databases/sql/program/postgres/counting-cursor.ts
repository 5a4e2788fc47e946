import Cursor from "pg-cursor";

/** What of the driver's connection and cursor this goes by. */
interface Internals {
  _portal: string;
  connection: {
    parse(message: { text: string }): void;
    bind(message: { values: readonly never[] }): void;
    execute(message: object): void;
    flush(): void;
  };
}

const own: { handleCommandComplete(message: object): void } = Cursor.prototype as never;

/** A cursor that also counts rows which it does not read: the server steps over them, and sends none. */
export class CountingCursor<Row> extends Cursor<Row> {
  #stepped: ((rows: number) => void) | null = null;

  /** Steps over up to `max` rows, after some were read and before the cursor is closed. How many there were. */
  skip(max: number): Promise<number> {
    const { connection, _portal: portal } = this as unknown as Internals;
    return new Promise((resolve, reject) => {
      this.#stepped = resolve;
      this.once("error", reject);
      // In the statement's own transaction, which the end of the cursor ends.
      connection.parse({ text: `move forward ${max} in "${portal}"` });
      connection.bind({ values: [] });
      connection.execute({});
      connection.flush();
    });
  }

  /** The driver's, called when a statement is done: the cursor's own, or one that stepped. */
  handleCommandComplete(message: { text: string }): void {
    const stepped = this.#stepped;
    this.#stepped = null;
    if (stepped === null) own.handleCommandComplete.call(this, message);
    else stepped(Number(message.text.split(" ")[1]));
  }
}
