#include <gtest/gtest.h>

#include <string>

#include "runtime/status.h"

namespace executorch_ggml {
namespace {

TEST(Status, IsOkByDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::Ok);
  EXPECT_EQ(status.message(), "");
}

TEST(Status, FormatsItsText) {
  const Status status = make_error(StatusCode::NotFound, "%s: %d of %zu", "key", -1, size_t{7});
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::NotFound);
  EXPECT_EQ(status.message(), "key: -1 of 7");
}

TEST(Status, KeepsLongTextsWhole) {
  const std::string name(100'000, 'x');
  const Status status = make_error(StatusCode::Internal, "<%s>", name.c_str());
  EXPECT_EQ(status.message(), "<" + name + ">");
}

TEST(Status, TakesTheEmptyText) {
  const char* const empty = "";
  EXPECT_EQ(make_error(StatusCode::Internal, "%s", empty).message(), "");
}

TEST(LocateError, PutsThePlaceInFront) {
  const Status inner = make_error(StatusCode::InvalidArgument, "too long");
  const Status outer = locate_error(locate_error(inner, "input %d", 3), "graph '%s'", "forward");
  EXPECT_EQ(outer.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(outer.message(), "graph 'forward': input 3: too long");
}

TEST(LocateError, LeavesOkAlone) {
  const Status status = locate_error(Status(), "graph %d", 0);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.message(), "");
}

TEST(ReturnIfError, ReturnsErrorsAndGoesOnOtherwise) {
  const auto run = [](const Status& step, bool& went_on) -> Status {
    EG_RETURN_IF_ERROR(step);
    went_on = true;
    return {};
  };
  bool went_on = false;
  EXPECT_EQ(run(make_error(StatusCode::InvalidState, "full"), went_on).message(), "full");
  EXPECT_FALSE(went_on);
  EXPECT_TRUE(run(Status(), went_on).ok());
  EXPECT_TRUE(went_on);
}

}  // namespace
}  // namespace executorch_ggml
