const stamped = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?Z) /;

/** Says when a line was written, as a person at a clock would: `14:03:07`, or `05-31 14:03:07` for another day than today. */
export type TimeTeller = (line: string) => string;

/**
 * For lines that begin with the engine's time stamp in UTC; others stay as they are.
 *
 * @param timeZone by its IANA name; default: that of this machine
 */
export function createTimeTeller(now: Date, timeZone?: string): TimeTeller {
  // The Swedish way to write a time is ISO 8601's.
  const format = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium", timeZone });
  const today = format.format(now).slice(0, 10);
  return (line) => {
    const stamp = stamped.exec(line)?.[1];
    if (stamp === undefined || Number.isNaN(Date.parse(stamp))) return line;
    const [day = "", time = ""] = format.format(new Date(stamp)).split(" ");
    return `${day === today ? "" : `${day.slice(5)} `}${time} ${line.slice(stamp.length + 1)}`;
  };
}
