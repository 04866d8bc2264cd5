// Queues told apart by stream, against a plain map of queues.
#include "coll/transport/lists.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <vector>

namespace softib::coll {

namespace {

struct Item {
  Item* next = nullptr;
  Stream stream = 0;
};

}  // namespace

TEST(StreamTable, EachStreamIsAQueueOfItsOwn) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  StreamTable<Item> table;
  std::map<Stream, std::deque<Item*>> expected;
  std::vector<Item> items(5000);
  for (Item& item : items) {
    // Streams that collide in the table's rows, too.
    item.stream = random() % 3 == 0 ? random() % 10 : u64{random() % 10} << 40;
    table.push(item);
    expected[item.stream].push_back(&item);
    while (random() % 2 == 0) {
      const Stream stream = random() % 2 == 0 ? random() % 10 : u64{random() % 10} << 40;
      auto& queue = expected[stream];
      Item* front = queue.empty() ? nullptr : queue.front();
      if (front != nullptr) queue.pop_front();
      ASSERT_EQ(table.take(stream), front);
    }
  }
  std::size_t left = 0;
  for (const auto& [stream, queue] : expected) left += queue.size();
  for (; left > 0; left--) {
    ASSERT_FALSE(table.empty());
    Item* item = table.take_any();
    ASSERT_EQ(item, expected[item->stream].front());
    expected[item->stream].pop_front();
  }
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.take_any(), nullptr);
}

TEST(Fifo, TakesFromAnywhere) {
  Item items[3];
  Fifo<Item> fifo;
  for (Item& item : items) fifo.push(item);
  EXPECT_EQ(fifo.take([&](const Item& it) { return &it == &items[2]; }), &items[2]);
  fifo.push(items[2]);
  EXPECT_EQ(fifo.take([&](const Item& it) { return &it == &items[1]; }), &items[1]);
  EXPECT_EQ(fifo.pop(), &items[0]);
  EXPECT_EQ(fifo.pop(), &items[2]);
  EXPECT_TRUE(fifo.empty());
}

}  // namespace softib::coll
