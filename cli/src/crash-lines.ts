import type { Crashing } from "@svc/proto";
import type { Screen } from "./command.ts";
import { formatAge, formatDuration, wrapText } from "./format.ts";

/** What may fall over; the field is absent from a platform that does not tell. */
export interface MayCrash<Status extends string | null = string | null> {
  status: Status;
  crashing?: Crashing | null | undefined;
}

/** The word for how it is: what falls over again and again is not simply running. */
export const shownStatus = <Status extends string | null>({
  status,
  crashing,
}: MayCrash<Status>): Status | "crashing" => (status === "running" && crashing ? "crashing" : status);

/** How often since when, when it is started again, and why: lines that fit the terminal; none when all is well. */
export function crashLines({ crashing }: Pick<MayCrash, "crashing">, { paint, now, columns }: Screen): string[] {
  if (!crashing) return [];
  const { since, count, lastAt, reason, nextStartAt } = crashing;
  const waitMs = nextStartAt === null ? 0 : Date.parse(nextStartAt) - now.getTime();
  const next =
    nextStartAt === null
      ? ["it is not started any more"]
      : waitMs > 0
        ? [`it is started again in ${formatDuration(waitMs)}`]
        : [];
  const times =
    count === 1
      ? [`ended ${formatAge(lastAt, now)}`]
      : [
          `ended ${count} times in ${formatDuration(now.getTime() - Date.parse(since))}`,
          `last ${formatAge(lastAt, now)}`,
        ];
  const text = `${[...times, ...next].join(", ")}: ${reason}`;
  return wrapText(text, columns === null ? Number.POSITIVE_INFINITY : columns - 2).map(
    (line) => `  ${paint("red", line)}`,
  );
}
