import { expect, test } from "vitest";
import { createDefinerFilter } from "./definers.ts";

function filtered(text: string, size: number): string {
  const filter = createDefinerFilter();
  const bytes = Buffer.from(text, "latin1");
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) parts.push(filter.push(bytes.subarray(at, at + size)));
  return Buffer.concat([...parts, filter.end()]).toString("latin1");
}

test.each([
  {
    of: "a view",
    line: "/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */",
    is: "/*!50013 SQL SECURITY DEFINER */",
  },
  {
    of: "a trigger",
    line: "/*!50003 CREATE*/ /*!50017 DEFINER=`a``b`@`%`*/ /*!50003 TRIGGER t BEFORE INSERT ON x FOR EACH ROW",
    is: "/*!50003 CREATE*/ /*!50003 TRIGGER t BEFORE INSERT ON x FOR EACH ROW",
  },
  {
    of: "an event",
    line: "/*!50106 CREATE*/ /*!50117 DEFINER=`r`@`h`*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 DAY",
    is: "/*!50106 CREATE*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 DAY",
  },
  { of: "a routine", line: "CREATE DEFINER=`r`@`h` PROCEDURE `p`()", is: "CREATE PROCEDURE `p`()" },
  { of: "a role's routine", line: "CREATE DEFINER=`r` FUNCTION `f`()", is: "CREATE FUNCTION `f`()" },
  { of: "no view", line: "INSERT INTO `t` VALUES ('/*!50013 DEFINER=`r`@`h` SQL SECURITY DEFINER */');" },
  { of: "a row in a line of its own", line: "('CREATE DEFINER=`r`@`h` PROCEDURE `p`()')," },
  { of: "bytes of any encoding", line: "INSERT INTO `t` VALUES (_binary '\x80\xff\0');" },
  { of: "a line without an end", line: `('${"x".repeat(20_000)}')` },
])("a definer of $of", ({ line, is = line }) => {
  for (const size of [1, 7, 100_000]) {
    const filler = "-- a\n\n";
    expect(filtered(`${filler}${line}\n${line}`, size)).toBe(`${filler}${is}\n${is}`);
  }
});
