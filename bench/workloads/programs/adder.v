// A tree of multipliers and registers, to be flattened and mapped.
module cell #(parameter W = 8)(input clk, input [W-1:0] a, input [W-1:0] b, output reg [W-1:0] s);
  always @(posedge clk) s <= a * b + (a ^ {b[0], b[W-1:1]});
endmodule

module top(input clk, input [127:0] x, input [127:0] y, output [127:0] z);
  genvar i;
  generate
    for (i = 0; i < 8; i = i + 1) begin : row
      cell #(.W(16)) c (.clk(clk), .a(x[16*i +: 16]), .b(y[16*i +: 16]), .s(z[16*i +: 16]));
    end
  endgenerate
endmodule
