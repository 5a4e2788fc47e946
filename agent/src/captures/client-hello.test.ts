import { describe, expect, test } from "vitest";
import { askedServer } from "./client-hello.ts";

const u16 = (value: number) => Buffer.from([value >> 8, value & 0xff]);
const sized = (body: Buffer) => Buffer.concat([u16(body.byteLength), body]);
const extension = (type: number, body: Buffer) => Buffer.concat([u16(type), sized(body)]);
const entry = (name: string, type = 0) => Buffer.concat([Buffer.from([type]), sized(Buffer.from(name, "latin1"))]);
const names = (...entries: Buffer[]) => extension(0, sized(Buffer.concat(entries)));

/** A message with these extensions, as a browser would send it. */
function hello(...extensions: Buffer[]): Buffer {
  const body = Buffer.concat([
    ...[u16(0x0303), Buffer.alloc(32, 7), Buffer.from([32]), Buffer.alloc(32, 9)],
    ...[sized(Buffer.from([0x13, 0x01, 0x13, 0x02])), Buffer.from([1, 0])],
    sized(Buffer.concat(extensions)),
  ]);
  return Buffer.concat([Buffer.from([1, 0]), u16(body.byteLength), body]);
}

const record = (body: Buffer, type = 22) => Buffer.concat([Buffer.from([type, 3, 1]), sized(body)]);
const [shop, key] = [names(entry("shop.example.test")), extension(51, Buffer.alloc(1_216, 1))];
const found = { kind: "name", name: "shop.example.test" };
const none = { kind: "none" };

describe("the server that a connection asks for", () => {
  test.each([
    { what: "is named", bytes: record(hello(key, shop)), asked: found },
    { what: "is named in capitals", bytes: record(hello(names(entry("Shop.Example.Test")))), asked: found },
    { what: "is named, and more follows", bytes: Buffer.concat([record(hello(shop)), record(hello())]), asked: found },
    {
      what: "is named in a message of two records",
      bytes: Buffer.concat([record(hello(key, shop).subarray(0, 3)), record(hello(key, shop).subarray(3))]),
      asked: found,
    },
    { what: "is not named", bytes: record(hello(key)), asked: none },
    { what: "is named twice", bytes: record(hello(names(entry("shop.example.test"), entry("b.test")))), asked: none },
    { what: "is named by two extensions", bytes: record(hello(shop, names(entry("b.test")))), asked: none },
    { what: "is named by something else", bytes: record(hello(names(entry("shop.example.test", 1)))), asked: none },
    { what: "is no name", bytes: record(hello(names(entry("shop\0.test")))), asked: none },
    { what: "has an empty name", bytes: record(hello(names(entry("")))), asked: none },
    { what: "is asked without TLS", bytes: Buffer.from("GET / HTTP/1.1\r\n"), asked: none },
    { what: "gets another message first", bytes: record(Buffer.from([2, 0, 0, 0])), asked: none },
    { what: "gets another record first", bytes: record(hello(shop), 23), asked: none },
    { what: "gets an empty record", bytes: record(Buffer.alloc(0)), asked: none },
    { what: "gets a message without an end", bytes: record(Buffer.from([1, 0xff, 0, 0])), asked: none },
    { what: "gets extensions that are longer than all", bytes: record(tooLong()), asked: none },
  ])("$what", ({ bytes, asked }) => {
    expect(askedServer(bytes)).toEqual(asked);
  });

  test("is not known before the whole message is there", () => {
    const bytes = record(hello(key, shop));
    for (let length = 0; length < bytes.byteLength; length += 1)
      expect(askedServer(bytes.subarray(0, length))).toEqual({ kind: "more" });
  });

  test("is not waited for without an end", () => {
    const drop = record(Buffer.from([1]));
    expect(askedServer(Buffer.concat(Array(20).fill(drop)))).toEqual(none);
  });
});

function tooLong(): Buffer {
  const message = Buffer.from(hello(shop));
  // The length of the one extension.
  message.writeUInt16BE(0xfff0, message.byteLength - shop.byteLength + 2);
  return message;
}
