import { measureConsole } from "@svc/control/tenants/databases/testing/bench";
import type { Row } from "./table.ts";

const statements = 40;

/** The console's way through a child process, beside a driver that logs in and asks the same. */
export async function consoleStatements(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const engine of ["postgres", "mariadb"] as const) {
    const { console, driver } = await measureConsole(engine, statements);
    rows.push({
      name: `console select 1, ${engine}`,
      unit: "ms",
      samples: console,
      floor: { name: "bare driver", samples: driver },
      aim: { text: "<= 30 ms", met: (value) => value <= 30 },
    });
  }
  return rows;
}
