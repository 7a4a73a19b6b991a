export function POST() {
  throw new Error("the handler failed");
}
